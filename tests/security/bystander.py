"""A program of the user's that has nothing to do with clew: what attacks on others are aimed at.

It listens where other programs listen, holds shared memory, and writes down in `heard` whatever reaches it.
Run as `python bystander.py FOLDER`; it prints where it can be found, and ends with its standard input.
"""

import ctypes
import json
import os
import secrets
import selectors
import signal
import socket
import sys
from pathlib import Path

folder = Path(sys.argv[1])
heard = folder / "heard"
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(b"precious", 8)
IPC_CREAT, IPC_RMID = 0o1000, 0
ipc_key = secrets.randbelow(1 << 30)
queue_name = f"bystander-{secrets.token_hex(4)}"


def write_down(what):
    with heard.open("a") as file:
        file.write(f"{what}\n")


def listen(family, kind, address):
    one = socket.socket(family, kind)
    one.bind(address)
    if kind == socket.SOCK_STREAM:
        one.listen()
    selector.register(one, selectors.EVENT_READ, str(address))
    return one


def share():
    libc.shmat.restype = ctypes.c_void_p
    memory = libc.shmget(ipc_key, 4096, IPC_CREAT | 0o600)
    ctypes.memmove(libc.shmat(memory, None, 0), b"shared", 6)
    semaphore = libc.semget(ipc_key, 1, IPC_CREAT | 0o600)
    queue = libc.mq_open(f"/{queue_name}".encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
    assert min(memory, semaphore, queue) >= 0, os.strerror(ctypes.get_errno())
    return memory, semaphore


def clean_up(memory, semaphore):
    libc.shmctl(memory, IPC_RMID, None)
    libc.semctl(semaphore, 0, IPC_RMID)
    libc.mq_unlink(f"/{queue_name}".encode())


selector = selectors.DefaultSelector()
signal.signal(signal.SIGUSR1, lambda *_: write_down("SIGUSR1"))
abstract = f"bystander-{secrets.token_hex(4)}"
sockets = [
    listen(socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "user" / "agent.sock")),
    listen(socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "tmp" / "service.sock")),
    listen(socket.AF_UNIX, socket.SOCK_DGRAM, str(folder / "user" / "datagrams.sock")),
    listen(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + abstract),
    listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
    listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
]
shared = share()
selector.register(sys.stdin, selectors.EVENT_READ, "end")
found = {
    "victim": os.getpid(),
    "victim_address": ctypes.addressof(buffer),
    "victim_heard": str(heard),
    "home_socket": str(folder / "user" / "agent.sock"),
    "tmp_socket": str(folder / "tmp" / "service.sock"),
    "datagram_socket": str(folder / "user" / "datagrams.sock"),
    "abstract_name": abstract,
    "port": sockets[4].getsockname()[1],
    "udp_port": sockets[5].getsockname()[1],
    "ipc_key": ipc_key,
    "queue_name": queue_name,
}
sys.stdout.write(json.dumps(found) + "\n")
sys.stdout.flush()
running = True
while running:
    for key, _ in selector.select():
        if key.data == "end":
            running = False
        elif key.fileobj.type == socket.SOCK_STREAM:
            key.fileobj.accept()[0].close()
            write_down(key.data)
        else:
            key.fileobj.recv(4096)
            write_down(key.data)
clean_up(*shared)
sys.stdout.write(buffer.raw.decode())
