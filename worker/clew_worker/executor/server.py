"""The executor: carries out the actions that the daemon has allowed, in the workspace.

It decides nothing: no LLM, no key, no judgement, no memory but that of file digests. One request at a time comes
over a socket (`clew_shared.wire.executor`); it runs inside a cell whose sandbox is already up.
"""

import contextlib
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clew_shared.exit_codes import ExitCode
from clew_shared.record.touched import Touched
from clew_shared.text.plain import recordable
from clew_shared.wire import executor as ex
from clew_shared.wire.framing import OversizedMessageError
from clew_shared.wire.nursery import CellSpec
from clew_worker.executor.attribution import Attribution
from clew_worker.executor.commands import Commands, Wire, WireError, cut
from clew_worker.executor.proof.look import Prover
from clew_worker.executor.snapshots.restoring import Restorer
from clew_worker.executor.snapshots.taking import SnapshotTaker
from clew_worker.executor.tools import registry as tools
from clew_worker.executor.tools.files import ToolContext, ToolOutcome
from clew_worker.executor.workspace import Workspace
from clew_worker.executor.world.world import WorldWatch
from clew_worker.sandbox.kernel import descendants

_OUTPUT_BYTES_MAX = 128 * 1024  # six times as long as JSON at worst: still one line

_ERROR_CHARS = 500

_GONE = (
    "the workspace {} was removed while the goal worked in it: nothing more can be done there. "
    "A person has to look into it: finish with success=false and say so"
)


class ExecutorServer:
    """One workspace and its tools."""

    def __init__(self, spec: CellSpec, wire: Wire, commands_rules: int) -> None:
        self._wire = wire
        at = "." if spec.stands_on else ""  # the cell has checked the folder that it is in
        self._workspace = Workspace(spec.sandbox.workspace, at)
        self._watch = WorldWatch(self._workspace.root, spec.ignore)
        notes = Path(spec.sandbox.store, "foreign.json") if spec.sandbox.store else None
        self._attribution = Attribution(self._watch, notes, self._left_running)
        self._snapshots = SnapshotTaker(spec, self._workspace)
        self._restorer = Restorer(spec, self._workspace)
        self._prover = Prover(spec, self._workspace)
        self._commands = Commands(
            wire, self._workspace.fileno(), rules=commands_rules, open_files=spec.limits.open_files
        )

    def serve(self) -> int:
        self._wire.send(ex.ExecutorReady())
        while (request := self._wire.next_request()) is not None:
            self._commands.reap()
            try:
                answer = self._answer(request)
            except (WireError, ValidationError, OversizedMessageError):
                raise
            except Exception as error:
                self._wire.send(ex.ExecutorFailed(error=_named(error)))
                raise
            self._wire.send(answer)
        return 0

    def close(self) -> None:
        self._commands.close()
        self._workspace.close()

    def _answer(self, request: ex.ExecutorRequest) -> ex.ExecutorAnswer:
        carry_out: dict[type, Callable[[Any], ex.ExecutorAnswer]] = {
            ex.RunRequest: self._run,
            ex.CheckRequest: self._check,
            ex.DigestRequest: self._digest,
            ex.SnapshotRequest: self._snapshot,
            ex.RestoreRequest: self._restore,
            ex.LookRequest: lambda asked: self._prover.look(asked, self._commands.starter),
            ex.ViewRequest: self._prover.prepare,
        }
        return carry_out[type(request)](request)

    def _run(self, request: ex.RunRequest) -> ex.ActionDone:
        self._attribution.look_before_action(request.seq)
        outcome, duration_s = self._carry_out(request, request.tool, request.args)
        self._attribution.ran()
        world = self._watch.digest()
        self._attribution.sort(own=True)
        return ex.ActionDone(
            id=request.id,
            seq=request.seq,
            duration_s=duration_s,
            world=world,
            touched=self._attribution.report(),
            **vars(outcome),
        )

    def _check(self, request: ex.CheckRequest) -> ex.ActionDone:
        if not self._prover.in_view:
            self._attribution.look_before_check()
        with self._commands.own_tmp() if request.fresh_tmp else contextlib.nullcontext():
            outcome, duration_s = self._carry_out(request, "run_cmd", {"cmd": request.cmd})
        if not self._prover.in_view:
            self._attribution.ran()
            self._attribution.look(own=request.own)
        return ex.ActionDone(id=request.id, duration_s=duration_s, **vars(outcome))

    def _digest(self, request: ex.DigestRequest) -> ex.DigestDone:
        if request.names_only:
            self._watch.look()
        world = None if request.names_only else self._watch.digest()
        self._attribution.sort(own=request.own)
        touched = self._attribution.report() if request.report else Touched()
        return ex.DigestDone(id=request.id, world=world, touched=touched)

    def _snapshot(self, request: ex.SnapshotRequest) -> ex.SnapshotDone:
        """Take a snapshot; where there is none, what has changed is reported with the next one."""
        seen = (
            -1
        )  # what comes and goes while this one is taken would not show: it holds for no later one
        if not self._snapshots.is_outdated(self._attribution.seen):
            self._attribution.look(own=request.own)  # the last one may hold: only a look says so
            seen = self._attribution.seen
        done = self._snapshots.take(request, seen)
        self._attribution.look(own=request.own)  # what changed meanwhile may be in it
        if done.taken is None:
            return done
        self._attribution.anchored = True
        if not request.base:
            self._prover.note_start()
        taken = done.taken.model_copy(update={"touched": self._attribution.report()})
        return done.model_copy(update={"taken": taken, "noted": self._attribution.noted})

    def _restore(self, request: ex.RestoreRequest) -> ex.RestoreDone:
        self._attribution.look()
        done = self._restorer.restore(request)
        self._attribution.look(restored=done.restored)
        return done

    def _left_running(self) -> bool:
        """Return whether a command has left something running: it is beneath the guard then."""
        try:
            return not {os.getpid(), self._commands.starter}.issuperset(descendants(os.getppid()))
        except OSError:  # it is not known
            return True

    def _carry_out(
        self, request: ex.RunRequest | ex.CheckRequest, name: str, args: Mapping[str, object]
    ) -> tuple[ToolOutcome, float]:
        """Run a tool; return its outcome, with an output that fits in one answer, and the seconds it took."""
        started = time.monotonic()
        if self._workspace.gone:
            outcome = ToolOutcome("error", _GONE.format(self._workspace.root), changed=False)
        else:
            most = min(request.output_bytes, _OUTPUT_BYTES_MAX)
            parts = self._workspace, self._commands, self._wire
            context = ToolContext(*parts, request.timeout_s, most)
            if isinstance(request, ex.RunRequest):
                context = replace(context, limit=request.limit, said=partial(self._say, request.id))
            outcome = tools.carry_out(name, args, context)
            text = cut(outcome.output, most + 200)  # room for a note after the output
            outcome = replace(outcome, output=text)
        return outcome, round(time.monotonic() - started, 4)

    def _say(self, number: int, tail: str) -> None:
        self._wire.send(ex.ActionSaid(id=number, tail=tail))


def _named(error: Exception) -> str:
    """Return an error in one line, with the place in the code where it happened."""
    *_, last = traceback.extract_tb(error.__traceback__)
    name = recordable(f"{type(error).__name__}: {error}")[:_ERROR_CHARS]
    return f"{name} ({Path(last.filename).name}, line {last.lineno}, in {last.name})"


def main(spec: CellSpec, sock: socket.socket, commands_rules: int) -> int:
    """Be the executor of `spec` on `sock`, with the ruleset of its commands (-1: none); return the exit code."""
    try:
        executor = ExecutorServer(spec, Wire(sock), commands_rules)
    except OSError as error:
        sys.stderr.write(f"executor: {error.filename}: {error.strerror}\n")
        return ExitCode.CONFIGURATION
    try:
        return executor.serve()
    except (WireError, ValidationError, OversizedMessageError) as error:
        sys.stderr.write(f"executor: invalid message from the daemon: {error}\n")
        return ExitCode.CONFIGURATION
    finally:
        executor.close()
