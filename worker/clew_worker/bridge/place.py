"""Where a CLI is started and where its relay finds the gateway: settled by the nursery, before the cell is confined."""

import os
import secrets
import socket
from pathlib import Path

from clew_shared.files import closing, remove_tree
from clew_shared.wire.nursery import CellSpec
from clew_worker.sandbox import interpreter

SOCKET, PORT = "clew.sock", "clew.port"
CONNECTIONS_MAX = 8


def with_program(spec: CellSpec) -> CellSpec:
    """Return the spec with the program that its CLI really is: without the script of an npm package around it."""
    return spec.model_copy(update={"argv": (interpreter.native(spec.argv[0]), *spec.argv[1:])})


def open_gateway(spec: CellSpec, *, unix: bool) -> tuple[CellSpec, socket.socket]:
    """Empty the cell's TMPDIR and listen there, or on a port, with a token, where it gets no unix sockets."""
    _, tmp = spec.sandbox.private
    clear(Path(tmp), ())
    if unix:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with closing(os.open(tmp, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as at:
            listener.bind(f"/proc/self/fd/{at}/{SOCKET}")  # its path is limited to 108 bytes
        listener.listen(CONNECTIONS_MAX)
        return spec, listener
    listener = socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS_MAX)
    port = listener.getsockname()[1]
    fd = os.open(Path(tmp, PORT), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(f"{port} {secrets.token_hex(32)}")
    sandbox = spec.sandbox.model_copy(update={"ports": (*spec.sandbox.ports, port)})
    return spec.model_copy(update={"sandbox": sandbox}), listener


def token(tmp: Path) -> str:
    """Return the token that the relay has to send first, "" for a unix socket."""
    place = tmp / PORT
    return place.read_text().partition(" ")[2] if place.exists() else ""


def clear(folder: Path, kept: tuple[str, ...], within: str = "") -> None:
    """Remove everything in a folder but the `kept` paths, which are relative to it; no link is followed."""
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        name = f"{within}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if name in kept and not entry.is_symlink():
            continue
        if is_folder and any(one.startswith(f"{name}/") for one in kept):
            clear(Path(entry.path), kept, f"{name}/")
        elif is_folder:
            remove_tree(entry.path)
        else:
            os.unlink(entry.path)  # noqa: PTH108 - a link, not what it leads to
