"""The executor: carries out the actions that the daemon has allowed, in the workspace.

It has hands but no mind: no LLM, no key, no judgement, no memory but that of file digests.
One request at a time comes over a socket (`clew_shared.wire.cells`); it runs inside a cell whose
sandbox is already up.
"""

import os
import socket
import sys
import time

from pydantic import ValidationError

from clew_shared.exit_codes import ExitCode
from clew_shared.wire import cells as cellwire
from clew_shared.wire.cells import (
    CellSpec,
    Check,
    Checked,
    Digest,
    Digested,
    Done,
    ExecutorReady,
    Killall,
    Killed,
    Run,
    World,
)
from clew_worker.executor.commands import Commands
from clew_worker.executor.output import cut
from clew_worker.executor.tools import registry as tools
from clew_worker.executor.tools.outcome import Context, Outcome
from clew_worker.executor.wire import Request, Wire, WireError
from clew_worker.executor.workspace import Workspace
from clew_worker.executor.world.world import WorldWatch
from clew_worker.sandbox import landlock

_OUTPUT_BYTES_MAX = 128 * 1024  # six times as long as JSON at worst: still one line

_GONE = (
    "the workspace {} was removed while the goal worked in it: nothing more can be done there. "
    "A person has to look into it: finish with success=false and say so"
)


class Executor:
    """One workspace and its tools."""

    def __init__(self, spec: CellSpec, wire: Wire) -> None:
        self._wire = wire
        at = "." if spec.stands_on else ""  # the cell has looked at where it stands
        self._workspace = Workspace(spec.sandbox.workspace, at)
        self._watch = WorldWatch(self._workspace.root, spec.executor.ignore)
        confined = spec.sandbox.mode != "off" and landlock.abi() > 0
        self._commands = Commands(
            wire,
            self._workspace.fileno(),
            inner_domain=confined,
            open_files=spec.limits.open_files,
        )
        self._world: World | None = None

    def serve(self) -> int:
        """Answer requests until the daemon hangs up."""
        self._wire.send(ExecutorReady(pid=os.getpid()))
        while (request := self._wire.next_request()) is not None:
            self._commands.reap()
            self._answer(request)
            self._wire.forget(request.id)
        return 0

    def close(self) -> None:
        self._commands.close()
        self._watch.close()
        self._workspace.close()

    def _answer(self, request: Request) -> None:
        match request:
            case Run():
                self._wire.send(self._run(request))
            case Check():
                self._wire.send(self._check(request))
            case Digest():
                self._wire.send(Digested(id=request.id, world=self._digest(anew=request.anew)))
            case Killall():
                self._wire.send(Killed(id=request.id, count=self._commands.kill_background()))

    def _digest(self, *, anew: bool) -> World:
        self._world = self._watch.digest(anew=anew)
        return self._world

    def _carry_out(self, request: Run | Check, name: str, args: dict[str, object]) -> Outcome:
        if self._wire.is_cancelled(request.id):
            return Outcome("error", "cancelled", changed=False)
        if self._workspace.gone:
            return Outcome("error", _GONE.format(self._workspace.root), changed=False)
        limit = min(request.output_bytes, _OUTPUT_BYTES_MAX)
        context = Context(
            self._workspace, self._commands, self._wire, request.id, request.timeout_s, limit
        )
        outcome = tools.carry_out(name, args, context)
        text = cut(outcome.output, limit + 200)  # room for a note after the output
        return Outcome(outcome.result, text, outcome.exit_code, outcome.changed)

    def _run(self, request: Run) -> Done:
        started = time.monotonic()
        outcome = self._carry_out(request, request.tool, request.args)
        duration_s = time.monotonic() - started
        changed = outcome.changed
        world = None
        if request.world:
            before = self._world
            world = self._digest(anew=False)
            if before is not None and not (before.partial or world.partial):
                changed = before.digest != world.digest
        return Done(
            id=request.id,
            seq=request.seq,
            result=outcome.result,
            output=outcome.output,
            exit_code=outcome.exit_code,
            duration_s=round(duration_s, 4),
            changed=changed,
            world=world,
        )

    def _check(self, request: Check) -> Checked:
        started = time.monotonic()
        outcome = self._carry_out(request, "run_cmd", {"cmd": request.cmd})
        return Checked(
            id=request.id,
            name=request.name,
            result=outcome.result,
            exit_code=outcome.exit_code,
            output=outcome.output,
            duration_s=round(time.monotonic() - started, 4),
        )


def main(spec: CellSpec, sock: socket.socket) -> int:
    """Be the executor of `spec` on `sock` (a stream socket to the daemon); the exit code."""
    try:
        executor = Executor(spec, Wire(sock))
    except OSError as error:
        sys.stderr.write(f"executor: {error.filename}: {error.strerror}\n")
        return ExitCode.CONFIGURATION
    try:
        return executor.serve()
    except (WireError, ValidationError, cellwire.OversizedMessageError) as error:
        sys.stderr.write(f"executor: invalid message from the daemon: {error}\n")
        return ExitCode.CONFIGURATION
    finally:
        executor.close()
