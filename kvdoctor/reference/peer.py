"""`python -m kvdoctor.reference.peer`: a process that holds KV blocks for others on this machine, over TCP."""

from __future__ import annotations

import os
import socket
import sys
import threading

from kvdoctor.reference.remote import DROP, GET, HEADER, PUT, receive


def serve(link: socket.socket, kept: dict[bytes, bytearray]) -> None:
    """Answer one client until it leaves."""
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with link:
        while True:
            try:
                operation, key_size, size = HEADER.unpack(receive(link, HEADER.size))
                key = bytes(receive(link, key_size))
                answer = _answer(operation, key, receive(link, size), kept)
                link.sendall(HEADER.pack(operation, 0, len(answer)))
                link.sendall(answer)
            except ConnectionError:
                return


def _answer(operation: bytes, key: bytes, data: bytearray, kept: dict[bytes, bytearray]) -> bytearray:
    """Do one operation; only GET has a payload in its answer."""
    if operation == PUT:
        kept[key] = data
    elif operation == DROP:
        kept.pop(key, None)
    elif operation == GET:
        return kept.get(key, bytearray())
    return bytearray()


def _end_with_parent() -> None:
    """Leave when standard input closes."""
    while sys.stdin.buffer.read(1):
        pass
    os._exit(0)


def main() -> None:
    """Listen on a free port of the loopback, print it, serve every client in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    kept: dict[bytes, bytearray] = {}
    while True:
        link, _ = listener.accept()
        threading.Thread(target=serve, args=(link, kept), daemon=True).start()


if __name__ == "__main__":
    main()
