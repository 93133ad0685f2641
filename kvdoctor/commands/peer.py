"""`kvdoctor probe network --serve`: the other end, started by hand, that ends by itself."""

from __future__ import annotations

from collections.abc import Sequence

from kvdoctor.commands.output import print_note
from kvdoctor.commands.probe_line import LAST_PORT
from kvdoctor.errors import Misuse
from kvdoctor.probes.serve import Place, is_loopback, listen, serve
from kvdoctor.units import duration

SECONDS = 600.0


def be_peer(names: Sequence[str], *, bind: str, port: int, seconds: float | None, token: str) -> None:
    """Listen, say where, serve for the time, and say how many came. The token is in the environment, never shown."""
    if list(names) != ["network"]:
        raise Misuse("--serve is the network probe's", "kvdoctor probe network --serve")
    if not 0 <= port <= LAST_PORT:
        raise Misuse(f"there is no port {port}", "--port 47600")
    place = Place(bind, port, token, SECONDS if seconds is None else seconds)
    server = listen(place)
    address = f"{f'[{bind}]' if ':' in bind else bind}:{server.getsockname()[1]}"
    whom = "this machine only" if is_loopback(bind) else "whoever knows KVDOCTOR_TOKEN"
    print_note(f"serving {whom} at {address} for {duration(place.seconds)}; Ctrl-C ends it")
    print_note(f"  there: kvdoctor probe network --peer {address}")
    came = serve(server, place)
    print_note(f"the time is over; {came} connections were served")
