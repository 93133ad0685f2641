"""What can go wrong on the way to a server, in sentences with a cure."""

from __future__ import annotations

import http.client
import socket

from kvdoctor.address import Address
from kvdoctor.errors import Unanswered, Unavailable


def explained(error: Exception, address: Address, deadline_s: float) -> Unavailable:
    """Return the sentence for an OSError or an HTTPException; any other error is raised again."""
    place = f"{address.host} port {address.port}"
    if isinstance(error, TimeoutError) and str(error) == "name":
        return Unavailable(f"the name {address.host} was not resolved within {deadline_s:g} s", "check DNS")
    if isinstance(error, TimeoutError):
        return Unanswered(
            f"no whole answer within {deadline_s:g} s", f"is the server overloaded, or {place} filtered?"
        )
    if isinstance(error, socket.gaierror):
        return Unavailable(f"the name {address.host} cannot be resolved", "check the host name and DNS")
    if isinstance(error, ConnectionRefusedError):
        return Unanswered(
            f"nothing listens on {place} (connection refused)",
            "check the port, and that the server runs in this network namespace",
        )
    if isinstance(error, ConnectionError):
        return Unanswered("the server closed the connection without an answer", "look at the server's log")
    if isinstance(error, OSError):
        return _of_network(error, address)
    if isinstance(error, http.client.HTTPException):
        return Unavailable(
            "what answers does not speak HTTP as it should", f"is {place} the API server's port?"
        )
    raise error


def _of_network(error: OSError, address: Address) -> Unavailable:
    name = type(error).__name__
    if name == "SSLCertVerificationError":
        return Unavailable(
            f"the certificate of {address.host} is not trusted: {getattr(error, 'verify_message', '')}",
            "name its authority: SSL_CERT_FILE=ca.pem kvdoctor ...",
        )
    if name.startswith("SSL"):
        return Unavailable("no TLS connection could be made", "does the server speak plain http?")
    return Unavailable(f"{address.host} cannot be reached: {error.strerror or error}", "check the network")
