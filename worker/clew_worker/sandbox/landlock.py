"""Landlock, by its three system calls: what a process may do to files, and which processes it may signal.

An allow-list: what no rule names is refused. `grants` decides which rights a cell gets. The package
`landlock` on PyPI has no scopes (ABI 6), hence this file.
Source: Linux Documentation/userspace-api/landlock.rst, include/uapi/linux/landlock.h.
"""

import contextlib
import os
import stat
import struct
from collections.abc import Iterable
from enum import IntFlag

from clew_shared.files import closing
from clew_worker.sandbox import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH, _RULE_NET_PORT = 1, 2
_SCOPES = 0b11  # abstract unix sockets, signals
SCOPES_ABI = 6
NETWORK_ABI = 4
BIND_TCP, CONNECT_TCP = 1, 2


# The rights to a path and all beneath it, in the order of the kernel's bits.
Right = IntFlag(
    "Right",
    "EXECUTE WRITE_FILE READ_FILE READ_DIR REMOVE_DIR REMOVE_FILE MAKE_CHAR MAKE_DIR MAKE_REG "
    "MAKE_SOCK MAKE_FIFO MAKE_BLOCK MAKE_SYM REFER TRUNCATE IOCTL_DEV",
)
_ALL = Right(0xFFFF)
_OF_FILES = Right.EXECUTE | Right.WRITE_FILE | Right.READ_FILE | Right.TRUNCATE | Right.IOCTL_DEV
READ = Right.READ_FILE | Right.READ_DIR
DEVICE = Right.READ_FILE | Right.WRITE_FILE | Right.TRUNCATE | Right.IOCTL_DEV
WRITE = _ALL & ~(Right.EXECUTE | Right.MAKE_CHAR | Right.MAKE_BLOCK | Right.IOCTL_DEV)


# a path, followed if it is a link, and the rights to it and all beneath it
Grant = tuple[str, Right]


def abi() -> int:
    """Return the version of the kernel's Landlock ABI; 0 where there is none, or it was disabled at boot."""
    try:
        return kernel.syscall(_CREATE_RULESET, "landlock", None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def ruleset(grants: list[Grant], network: int = 0, ports: Iterable[int] = ()) -> int:
    """Make a ruleset that allows only `grants` and confines signals; return its descriptor.

    `network` is what is refused of TCP: BIND_TCP, CONNECT_TCP or both, the latter but for `ports` (from ABI 4 on).
    """
    version, handled = abi(), _ALL
    for since, right in ((5, Right.IOCTL_DEV), (3, Right.TRUNCATE), (2, Right.REFER)):
        if version < since:
            handled &= ~right
    fields = 1 + (version >= NETWORK_ABI) + (version >= SCOPES_ABI)  # an older kernel takes fewer
    raw = struct.pack("3Q", int(handled), network, _SCOPES)[: 8 * fields]
    fd = kernel.syscall(_CREATE_RULESET, "landlock_create_ruleset", raw, len(raw), 0)
    for path, rights in grants:
        _add(fd, path, rights & handled)
    for port in ports if version >= NETWORK_ABI else ():
        rule = struct.pack("=QQ", CONNECT_TCP, port)
        _add_rule(fd, _RULE_NET_PORT, rule, f"port {port}")
    return fd


def _add(ruleset_fd: int, path: str, rights: Right) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a path that does not exist or cannot be seen needs no grant
    with closing(fd):
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_FILES
        if rights:
            with contextlib.suppress(FileNotFoundError):
                rule = struct.pack("=Qi", int(rights), fd)
                _add_rule(ruleset_fd, _RULE_PATH_BENEATH, rule, path)


def _add_rule(ruleset_fd: int, kind: int, rule: bytes, what: str) -> None:
    kernel.syscall(_ADD_RULE, f"landlock_add_rule {what}", ruleset_fd, kind, rule, 0)


def restrict(ruleset_fd: int) -> None:
    """Enter the domain of a ruleset, irrevocably; needs no_new_privs."""
    kernel.syscall(_RESTRICT_SELF, "landlock_restrict_self", ruleset_fd, 0)
