"""The wire below the agent: daemon and nursery, daemon and executor.

Both sides import these messages, so neither guesses what the other means. Nothing here opens a
socket, starts a process or reads a clock; it only names, packs and unpacks.

Nursery (SOCK_SEQPACKET, one JSON message a packet, at most PACKET_BYTES_MAX)
    The daemon is PR_SET_CHILD_SUBREAPER and keeps the only copy of its end of a socket pair; the
    other end is inherited by `python -m clew_worker.cell.nursery FD [MODULE ...]`, started from the
    daemon's main thread with a scrubbed environment (`/proc/PID/environ` of every cell shows that
    one). MODULEs are imported beforehand; `openai` where an llm agent is configured.

        daemon                                   nursery
                              <- NurseryHello         once, when it is warm
                              <- InStore              a cell is forked ahead; at any time
        Spawn + [channel, log?] ->                    SCM_RIGHTS; the daemon closes its copies
                              <- Spawned | SpawnFailed   by `id`: several start at once, in any order

    `channel` is a stream socket (agent protocol or the executor wire below); it is fd 3 of the
    cell. `log` is the write end of a pipe that takes stdout and stderr (absent: /dev/null).
    The nursery ends when the daemon's end closes or the daemon dies; cells do not die with it.

Cell
    A guard process G runs the payload P. Both pids are of the daemon's PID namespace. G is the
    daemon's own child when Spawned arrives: wait for it (pidfd, waitid). Its exit code is P's
    (0, 75, 78, ...) or 128 + the signal that ended P; when G is gone, so is everything that P
    started. To end a cell send SIGKILL to G. In `guard` isolation follow a SIGKILL of G with
    SIGKILL to every descendant that then turns up as the daemon's child (P dies by PDEATHSIG,
    grandchildren re-parent to the daemon); SIGTERM to G ends the whole tree without that.
    P is what `clew status` shows.

Executor (stream socket, one JSON message a line, at most LINE_BYTES_MAX)
    ExecutorReady comes first. Then each request with an `id` is answered by one reply with the
    same `id`, in order; one runs at a time, others wait. Cancel is read at once and has no reply
    of its own: the request that it names is answered (`error`, "cancelled"). Killall ends whatever
    actions left in the background, after what is running. A broken line ends the executor (78).
"""

import errno
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from clew_shared.record.worlds import UNKNOWN

PACKET_BYTES_MAX = 128 * 1024
LINE_BYTES_MAX = 1024 * 1024
CHANNEL_FD = 3

Isolation = Literal["pidns", "guard"]
SandboxMode = Literal["enforce", "best_effort", "off"]
ToolResult = Literal["success", "failure", "error", "timeout"]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SandboxSpec(_Message):
    """What a cell may touch; all paths absolute.

    `hide` wins over every other path (also over a system folder that contains it), except that
    the workspace and `private` stay visible when they lie inside a hidden folder.
    """

    mode: SandboxMode = "enforce"
    workspace: str
    private: tuple[str, ...] = ()  # folders of this goal alone: TMPDIR, HOME; executors write there
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()  # executors and own-tools commands only
    hide: tuple[str, ...] = ()  # config, inbox, outbox, state, run, workspaces, other workspaces
    network: bool = True
    own_tools: bool = False  # a command that may write and start programs, as an executor


class CellLimits(_Message):
    """Resource limits of each process of a cell; `processes` holds only in a user namespace."""

    open_files: int = 1024
    processes: int = 512
    file_size_mb: int | None = None


class ExecutorOptions(_Message):
    """What the executor needs to know beside its sandbox."""

    ignore: tuple[str, ...] = ()  # [loops] ignore: globs that are no part of the world
    output_bytes: int = 65536
    action_timeout_s: float = 120


class CellSpec(_Message):
    """One process to start: an executor, a built-in agent, or a foreign command.

    `env` is the whole environment (CLEW_FD is added for agents and commands). `agent` names the
    built-in agent, whose entry is `clew_worker.agent.main.main(name, sock_fd, spec) -> exit code`;
    `options` is for it alone. `isolation="guard"` does without a PID namespace. `title` is for `ps`; a command has
    its own.
    """

    kind: Literal["executor", "agent", "command"]
    title: str = ""
    sandbox: SandboxSpec
    cwd: str
    env: dict[str, str] = {}
    agent: str = ""
    argv: tuple[str, ...] = ()
    limits: CellLimits = CellLimits()
    umask: int = 0o077
    isolation: Literal["auto", "guard"] = "auto"
    cgroup: str = ""  # the folder of the control group that its first process enters; "": none
    executor: ExecutorOptions = ExecutorOptions()
    options: dict[str, Any] = {}
    stands_on: tuple[int, int] | None = None  # device and inode that `cwd` must have; None: any


class SandboxReport(_Message):
    """What this kernel and this user can have; `messages` are sentences for `clew doctor`."""

    landlock_abi: int  # 0: none
    scopes: bool  # signals and abstract sockets are confined (ABI 6)
    isolation: Isolation
    userns: bool  # the PID namespace comes from a user namespace
    network_off: Literal["netns", "seccomp", "none"]  # how `network = false` would hold
    seccomp: bool
    messages: tuple[str, ...] = ()


class NurseryHello(_Message):
    """The nursery is warm. Where one of the files or folders of `made_of` changes, it is out of date."""

    type: Literal["nursery_hello"] = "nursery_hello"
    pid: int
    version: str = ""  # of clew, whose daemon may be an older one that still runs
    preloaded: tuple[str, ...]
    made_of: tuple[str, ...] = ()
    sandbox: SandboxReport


class Spawn(_Message):
    """Start a cell. Comes with one or two descriptors: channel, log."""

    type: Literal["spawn"] = "spawn"
    id: int
    spec: CellSpec


class InStore(_Message):
    """A guard waits for a cell to be wanted: a child of the daemon, to be waited for like any other."""

    type: Literal["in_store"] = "in_store"
    guard_pid: int


class Spawned(_Message):
    """The payload is sandboxed and running (a foreign command: exec'd)."""

    type: Literal["spawned"] = "spawned"
    id: int
    guard_pid: int
    pid: int
    isolation: Isolation
    warnings: tuple[str, ...] = ()  # what `best_effort` had to do without


class SpawnFailed(_Message):
    """No payload runs. `guard_pid`, where known, is to be waited for all the same.

    reason: `sandbox` (what was asked for cannot be had here: a restart will not help),
    `exec` (the command cannot be started), `resources` (descriptors, processes or memory have run out:
    it may work later), `workspace` (another folder stands there than `stands_on`), `spawn` (a bug, a deadline).
    """

    type: Literal["spawn_failed"] = "spawn_failed"
    id: int
    reason: Literal["sandbox", "exec", "resources", "workspace", "spawn"]
    message: str
    guard_pid: int | None = None


class ExecutorReady(_Message):
    """The executor answers from now on."""

    type: Literal["ready"] = "ready"
    pid: int  # of its own namespace: only for logs


class Run(_Message):
    """Carry out one allowed action. `timeout_s` bounds run_cmd and wait; args may lower it."""

    type: Literal["run"] = "run"
    id: int
    seq: int
    tool: str
    args: dict[str, Any]
    timeout_s: float = 120
    output_bytes: int = 65536
    world: bool = True


class Digest(_Message):
    """Ask for the digest of the world; `anew`: of every file, whatever the kernel says of changes."""

    type: Literal["digest"] = "digest"
    id: int
    anew: bool = True


class Check(_Message):
    """Run a goal's check by `sh -c`; it passes with exit code 0."""

    type: Literal["check"] = "check"
    id: int
    name: str
    cmd: str
    timeout_s: float = 300
    output_bytes: int = 65536


class Cancel(_Message):
    """End the request `target` (its id) if it is running or waiting."""

    type: Literal["cancel"] = "cancel"
    target: int


class Killall(_Message):
    """End everything that earlier actions left running."""

    type: Literal["killall"] = "killall"
    id: int


class World(_Message):
    """What the workspace is: equal digests, equal worlds, but for a `partial` one."""

    digest: str  # 32 hex digits
    entries: int
    partial: bool = False  # cut short by time or size: the rest is not in the digest

    @property
    def name(self) -> str:
        """The digest, UNKNOWN for a partial one: it says nothing about what was not looked at."""
        return UNKNOWN if self.partial else self.digest


class Done(_Message):
    """An action's outcome. `changed` is None where nobody knows (no digest before or after)."""

    type: Literal["done"] = "done"
    id: int
    seq: int
    result: ToolResult
    output: str
    exit_code: int | None = None  # 128 + signal when a signal ended the command
    duration_s: float
    changed: bool | None = None
    world: World | None = None


class Digested(_Message):
    """The answer to Digest."""

    type: Literal["digested"] = "digested"
    id: int
    world: World


class Checked(_Message):
    """The answer to Check; `result` is `success` if and only if it passed."""

    type: Literal["checked"] = "checked"
    id: int
    name: str
    result: ToolResult
    exit_code: int | None
    output: str
    duration_s: float


class Killed(_Message):
    """The answer to Killall: how many processes were ended."""

    type: Literal["killed"] = "killed"
    id: int
    count: int


FromNurseryMessage = NurseryHello | InStore | Spawned | SpawnFailed
FromNursery = Annotated[FromNurseryMessage, Field(discriminator="type")]
ToExecutor = Annotated[Run | Digest | Check | Cancel | Killall, Field(discriminator="type")]
FromExecutor = Annotated[
    ExecutorReady | Done | Digested | Checked | Killed, Field(discriminator="type")
]

_from_nursery: TypeAdapter[FromNurseryMessage] = TypeAdapter(FromNursery)
_to_executor: TypeAdapter[Run | Digest | Check | Cancel | Killall] = TypeAdapter(ToExecutor)
_from_executor: TypeAdapter[ExecutorReady | Done | Digested | Checked | Killed] = TypeAdapter(
    FromExecutor
)


_SHORTAGES = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.EAGAIN,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.ETOOMANYREFS,  # descriptors that are on their way
    }
)


def is_shortage(error: BaseException) -> bool:
    """Tell whether descriptors, processes or memory have run out: what failed so may work later."""
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno in _SHORTAGES
    )


class OversizedMessageError(ValueError):
    """A message is larger than its wire carries."""


def packet(message: Spawn | FromNurseryMessage) -> bytes:
    """Pack one message for the nursery's socket; OversizedMessageError beyond PACKET_BYTES_MAX."""
    data = message.model_dump_json().encode()
    if len(data) > PACKET_BYTES_MAX:
        raise OversizedMessageError(
            f"{message.type}: {len(data)} bytes, at most {PACKET_BYTES_MAX} go in one packet; "
            "shorten the environment, the paths or the command"
        )
    return data


def line(message: _Message) -> bytes:
    """Pack one message for the executor's socket; OversizedMessageError beyond LINE_BYTES_MAX."""
    data = message.model_dump_json().encode() + b"\n"
    if len(data) > LINE_BYTES_MAX:
        raise OversizedMessageError(f"a message of {len(data)} bytes, at most {LINE_BYTES_MAX}")
    return data


def read_spawn(data: bytes) -> Spawn:
    """Unpack what the daemon sent to the nursery; pydantic.ValidationError if it is broken."""
    return Spawn.model_validate_json(data)


def read_from_nursery(data: bytes) -> FromNurseryMessage:
    """Unpack what the nursery sent; pydantic.ValidationError if it is broken."""
    return _from_nursery.validate_json(data)


def read_to_executor(data: bytes) -> Run | Digest | Check | Cancel | Killall:
    """Unpack a line for the executor; pydantic.ValidationError if it is broken."""
    return _to_executor.validate_json(data)


def read_from_executor(data: bytes) -> ExecutorReady | Done | Digested | Checked | Killed:
    """Unpack a line of the executor; pydantic.ValidationError if it is broken."""
    return _from_executor.validate_json(data)
