"""The MCP server "clew" as a CLI starts it: carries lines between standard input and output and the gateway's socket.

`python -I -S relay.py FOLDER`. Standard library alone; it knows nothing of MCP, and ends when either side does.
"""

import os
import selectors
import socket
import sys

CHUNK = 65536


def connect(folder: str) -> socket.socket:
    """Return a connection to the gateway that listens in, or is named by, this folder."""
    os.chdir(folder)  # a socket's own path is limited to 108 bytes
    try:
        with open("clew.port", encoding="ascii") as file:  # noqa: PTH123 - imports nothing that it can do without
            port, token = file.read().split()
    except FileNotFoundError:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect("clew.sock")
        return sock
    sock = socket.create_connection(("127.0.0.1", int(port)))
    sock.sendall(token.encode() + b"\n")
    return sock


def carry(sock: socket.socket) -> None:
    """Carry bytes both ways until one side ends."""
    with selectors.DefaultSelector() as ready:
        ready.register(0, selectors.EVENT_READ)
        ready.register(sock, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                data = rest = os.read(key.fd, CHUNK)
                if key.fd == 0:
                    sock.sendall(data)
                    rest = b""
                while rest:
                    rest = rest[os.write(1, rest) :]
                if not data:
                    return


if __name__ == "__main__":
    try:
        carry(connect(sys.argv[1]))
    except (BrokenPipeError, ConnectionResetError):
        sys.exit()  # one side has ended with something unread
