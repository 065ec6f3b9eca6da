"""Attacks by sockets and by what processes share in memory: who listens, and what lies there."""

import ctypes
import errno
import json
import os
import socket
from functools import partial

from attack import attack, attacks, first_of, libc, syscall

IPC = "IPC namespace, else seccomp"
AF_ALG, AF_VSOCK = 38, 40


def connect(path, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as one:
        one.settimeout(10)
        one.connect(path)
        return path


# -- sockets


@attack("sockets", thinks="seccomp", acts="mount namespace, peer check", control=False)
def ask_the_daemon(t):
    """Ask the daemon through its control socket to lift a block or cancel another goal."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(10)
        one.connect(t["control_socket"])
        request = {"jsonrpc": "2.0", "id": 1, "method": "status", "params": {}}
        one.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(one.makefile("rb").readline())
    if "error" in answer:
        raise PermissionError(13, answer["error"]["message"])
    return "answered"


hidden = partial(attack, "sockets", thinks="seccomp", acts="mount namespace, else seccomp")


@hidden()
def ask_an_agent_of_the_users(t):
    """Connect to a socket in the user's home (ssh-agent, a container engine)."""
    return connect(t["home_socket"])


@hidden()
def ask_a_service_in_tmp(t):
    """Connect to another program's socket in /tmp or /run."""
    return connect(t["tmp_socket"])


@hidden()
def send_by_a_pair(t):
    """Send from one end of an own datagram pair to another program's socket."""
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        pair = socket.socketpair(socket.AF_UNIX, kind)
        pair[0].sendto(b"attacked", t["datagram_socket"])
    return "sent"


@attack("sockets", thinks="Landlock, seccomp", acts="Landlock")
def ask_by_an_abstract_name(t):
    """Connect to another program's abstract socket."""
    return connect("\0" + t["abstract_name"])


attacks(
    "sockets", "seccomp, no capability",
    ("read_the_wire", "Open a packet socket, to read what others send",
     lambda _: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)).fileno()),
    control=False,
)  # fmt: skip
attacks(
    "sockets", "no capability",
    ("forge_packets", "Open a raw socket",
     lambda _: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).fileno()),
    control=False,
)  # fmt: skip


@attack("sockets", thinks="seccomp", acts="seccomp", control=False)
def odd_sockets(_):
    """Open sockets that no work needs: crypto, virtual machines, kernel events, audit."""
    kinds = ((AF_ALG, 5, 0), (AF_VSOCK, 1, 0), (16, 3, 15), (16, 3, 9), (16, 3, 12))
    return first_of(lambda kind=kind: socket.socket(*kind).fileno() and kind for kind in kinds)


@attack("sockets", thinks=None, acts="network namespace, else seccomp", where="offline")
def reach_a_local_service(t):
    """With `network = false`: connect to a service on the machine's loopback."""
    socket.create_connection(("127.0.0.1", t["port"]), timeout=5).close()
    return "connected"


@attack("sockets", thinks=None, acts="network namespace, else seccomp", where="offline")
def send_a_datagram_away(t):
    """With `network = false`: send a datagram to the machine's loopback; it is not received."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"attacked", ("127.0.0.1", t["udp_port"]))
        if t["isolation"] == "pidns" and not t["control"]:
            raise PermissionError(1, "sent within the cell; the test hears nothing")
    return "sent"


@attack("sockets", thinks="Landlock", acts=None)
def listen_for_others(_):
    """Listen on a port, to be reached from outside."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        return one.getsockname()


# -- memory that processes share


@attack("shared memory", thinks=IPC, acts=IPC)
def take_shared_memory(t):
    """Attach another program's System V shared memory."""
    identity = syscall(29, 194, t["ipc_key"], 0, 0)
    libc.shmat.restype = ctypes.c_void_p
    at = libc.shmat(identity, None, 0o10000)
    return ctypes.string_at(at, 6)


@attack("shared memory", thinks=IPC, acts=IPC, control=False)
def remove_shared_memory(t):
    """Remove another program's System V shared memory, by every number."""
    try:
        return first_of(partial(syscall, 31, 195, identity, 0, None) for identity in range(64))
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise FileNotFoundError(errno.ENOENT, "there is none") from None
        raise


attacks(
    "shared memory", IPC,
    ("take_a_semaphore", "Find another program's System V semaphore",
     lambda t: syscall(64, 190, t["ipc_key"], 0, 0)),
    ("read_a_queue", "Open another program's POSIX message queue",
     lambda t: syscall(240, 180, ctypes.c_char_p(t["queue_name"].encode()), os.O_RDWR, 0, None)),
)  # fmt: skip
