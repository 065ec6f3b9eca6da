"""What the guard and the payload of a cell share: their descriptors, and their reports to the nursery."""

import contextlib
import json
import os
import resource
import select
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from clew_shared.exit_codes import ExitCode
from clew_shared.text.plain import plain
from clew_shared.wire.nursery import CHANNEL_FD, CellSpec, SandboxReport, is_shortage

_CLOSED_MIN = 64  # descriptors below this are closed even where the limit was lowered further


@dataclass(frozen=True)
class Wiring:
    """What the nursery passes to a new cell: descriptors, what it is to be, and what the sandbox can do here."""

    control: int  # the nursery's own socket: hangs up when the daemon is gone
    report: int  # to the nursery: pids (by SCM_CREDENTIALS), warnings, an error
    given: tuple[int, ...]  # the cell's channel, log and peer, as `Spawn` brings them
    spec: CellSpec
    pidns: bool
    sandbox: SandboxReport


class CellStartError(Exception):
    """A step before the payload runs has failed; `reason` as in SpawnFailed."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def hung_up(fd: int) -> bool:
    """Return whether the other end of a socket is closed."""
    poll = select.poll()
    poll.register(fd, select.POLLRDHUP)
    return any(events & (select.POLLHUP | select.POLLRDHUP) for _, events in poll.poll(0))


def uses_pidns(spec: CellSpec, report: SandboxReport) -> bool:
    """Return whether this cell gets a PID namespace."""
    return spec.isolation == "auto" and report.isolation == "pidns"


def _described(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return plain(error)
    return f"{type(error).__name__}: {error}"


def send_report(report: int, kind: bytes, **fields: object) -> None:
    with contextlib.suppress(OSError):  # the nursery has ended, and this process ends soon, too
        os.write(report, kind + json.dumps(fields).encode())


def run_to_end(report: int, steps: Callable[[], int]) -> NoReturn:
    """Run a forked process to its end and exit, whatever happens, without returning to the caller's stack."""
    code = 1
    try:
        code = steps()
    except CellStartError as error:
        code = ExitCode.CONFIGURATION
        send_report(report, b"E", reason=error.reason, message=str(error))
    except BaseException as error:  # noqa: BLE001 - nothing may return to the nursery's loop
        reason = "resources" if is_shortage(error) else "spawn"
        send_report(report, b"E", reason=reason, message=_described(error))
    finally:
        os._exit(code)


def enter_group(cgroup: str) -> None:
    """Enter the control group of this cell, with all processes that it starts later."""
    if cgroup:
        try:
            Path(cgroup, "cgroup.procs").write_text("0")
        except OSError as error:
            message = f"cannot enter the control group {cgroup}: {error.strerror}"
            raise CellStartError("spawn", message) from error


def close_all_but(*kept: int) -> None:
    """Close every descriptor but these."""
    first = 0 if not kept else CHANNEL_FD
    for fd in (*sorted(kept), max(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _CLOSED_MIN)):
        os.closerange(first, fd)
        first = fd + 1
