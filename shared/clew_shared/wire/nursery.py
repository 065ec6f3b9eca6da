"""The wire between the daemon and a nursery: SOCK_SEQPACKET, one JSON message a packet, at most PACKET_BYTES_MAX.

The nursery
    It inherits one end of a socket pair of the daemon, which is PR_SET_CHILD_SUBREAPER, and is started with a scrubbed
    environment (`/proc/PID/environ` of every cell shows that one).

        daemon                                   nursery
                              <- NurseryHello         once, when it is warm
        Spawn + [channel, log?, peer?] ->             SCM_RIGHTS; the daemon closes its copies
                              <- Spawned | SpawnFailed   by `id`: several start at once, in any order

    `channel` is a stream socket (the agent protocol or `wire.executor`); it is fd 3 of the cell. `log` is the write
    end of a pipe that takes stdout and stderr (absent: /dev/null). `peer` is for the bridge of a coding agent: the
    socket to the cell of its CLI. The nursery ends when the daemon's end closes; cells do not end with it.

A cell
    A guard process G, the daemon's own child when Spawned arrives, runs the payload P. G's exit code is P's (0, 75,
    78, ...) or 128 + the signal that ended P; when G has ended, so has everything that P started. To end a cell send
    SIGKILL to G; in `guard` isolation then also to every descendant that appears as the daemon's child.
"""

import errno
from collections.abc import Callable
from typing import Literal

from pydantic import Field

from clew_shared.wire.framing import WireMessage, encode, reader

_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOBUFS, errno.ETOOMANYREFS)  # fmt: skip


def is_shortage(error: BaseException) -> bool:
    """Return whether descriptors, processes or memory have run out: what failed may succeed later."""
    return isinstance(error, MemoryError) or getattr(error, "errno", None) in _SHORTAGES


PACKET_BYTES_MAX = 128 * 1024
CHANNEL_FD = 3

Isolation = Literal["pidns", "guard"]
SandboxMode = Literal["enforce", "best_effort", "off"]
SpawnFault = Literal["sandbox", "exec", "resources", "workspace", "spawn"]


class SandboxSpec(WireMessage):
    """What a cell may touch, as absolute paths; the workspace and `private` are visible in what is hidden."""

    mode: SandboxMode = "enforce"
    workspace: str
    private: tuple[str, ...] = ()  # folders of this goal alone: TMPDIR, HOME; executors write there
    store: str = ""  # of the goal's snapshots: for the executor itself, hidden from its commands
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()  # executors and own-tools commands only
    hide: tuple[str, ...] = ()  # config, inbox, outbox, state, run, workspaces, other workspaces
    network: bool = True
    ports: tuple[int, ...] = ()  # of a CLI's cell: the only TCP ports that it may connect to
    own_tools: bool = False  # a command that may write and start programs, as an executor


class CellLimits(WireMessage):
    """Resource limits of each process of a cell; `processes` holds only in a user namespace."""

    open_files: int = 1024
    processes: int = 512
    file_size_mb: int | None = None


class CellSpec(WireMessage):
    """A process to start: an executor, a built-in agent, a foreign command, or the starter of a CLI."""

    kind: Literal["executor", "agent", "command", "cli"]
    title: str = ""  # for `ps`; a command has its own
    sandbox: SandboxSpec
    cwd: str
    env: dict[str, str] = Field(default={})  # all of it; CLEW_FD is added for agents and commands
    agent: str = ""  # a built-in agent, run by `clew_worker.agent.runbook.main(name, sock_fd)`
    argv: tuple[str, ...] = ()
    limits: CellLimits = CellLimits()
    umask: int = 0o077
    isolation: Literal["auto", "guard"] = "auto"  # guard: without a PID namespace
    cgroup: str = ""  # the folder of the control group that its first process enters; "": none
    git: str = ""  # the absolute path of the system's git, for snapshots; "" where there is none
    ignore: tuple[str, ...] = ()  # [loops] ignore, of an executor: what is no part of the world
    overlay: tuple[str, str] | None = None  # what is written over `cwd` goes there
    stands_on: tuple[int, int] | None = None  # device and inode that `cwd` must have; None: any


class SandboxReport(WireMessage):
    """What this kernel offers this user; `messages` are sentences for `clew doctor`."""

    landlock_abi: int  # 0: none
    isolation: Isolation
    userns: bool  # the PID namespace comes from a user namespace
    network_off: Literal["netns", "seccomp", "none"]  # how `network = false` would hold
    messages: tuple[str, ...] = ()


class NurseryHello(WireMessage):
    """The nursery is warm."""

    type: Literal["nursery_hello"] = "nursery_hello"
    pid: int
    version: str = ""  # of clew: the daemon that runs may still be an older one
    preloaded: tuple[str, ...]
    sandbox: SandboxReport


class Spawn(WireMessage):
    """Start a cell. Comes with one to three descriptors: channel, log, peer."""

    type: Literal["spawn"] = "spawn"
    id: int
    spec: CellSpec


class Spawned(WireMessage):
    """The payload is sandboxed and running (a foreign command: exec'd)."""

    type: Literal["spawned"] = "spawned"
    id: int
    guard_pid: int
    pid: int
    isolation: Isolation
    warnings: tuple[str, ...] = ()  # what `best_effort` had to do without


class SpawnFailed(WireMessage):
    """No payload runs; where `guard_pid` is known, it still has to be waited for."""

    type: Literal["spawn_failed"] = "spawn_failed"
    id: int
    # sandbox: impossible here, a restart will not help; exec: the command cannot be started; resources: used up, later
    # it may work; workspace: another folder is there than `stands_on`; spawn: a bug, a deadline
    reason: SpawnFault
    message: str
    guard_pid: int | None = None


NurseryMessage = NurseryHello | Spawned | SpawnFailed

read_from_nursery: Callable[[bytes], NurseryMessage] = reader(NurseryMessage)
read_spawn = Spawn.model_validate_json


def to_packet(message: Spawn | NurseryMessage) -> bytes:
    """Pack one message; OversizedMessageError beyond PACKET_BYTES_MAX."""
    remedy = " go in one packet; shorten the environment, the paths or the command"
    return encode(message, PACKET_BYTES_MAX, what=f"{message.type}:", remedy=remedy)
