"""The library's `ContextManager`: an agent's goal, its actions, and what it must not repeat.

Under the daemon (`CLEW_FD`) it uses the worker protocol; without one it has the same ledger under `.agent_context/`
of the current folder, and the same rules. It carries out nothing.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from clew_shared.config.settings import load
from clew_shared.core.answers import ActionReport
from clew_shared.prompt.compact import compact_context
from clew_shared.text.redact import redact, redacted
from clew_worker.executor.commands import cut
from clew_worker.library.local import LocalGoal
from clew_worker.library.open_goal import Answer, WorkState, all_done
from clew_worker.library.remote import RemoteGoal, daemon_of

OUTPUT_BYTES = 65_536
"""The limit of a recorded output, which is cut to its beginning and end, as by `[limits] output_bytes`."""

_RESULTS = ("success", "failure", "error", "timeout")


class ContextManager:
    """A goal's tree, its actions and its loops, for an agent that runs its own tools.

    `folder` is where the agent acts, by default the current folder; `.agent_context/` lies in it. The numbers of
    `[loops]` are the defaults, or `CLEW_LOOPS__KEY` of the environment. Every call is durable when it returns. `state`
    may be changed in place: the next call saves that.

    Where a subtask is blocked, the agent must find another way: change the tree (what it adds inherits the blocked
    one's counts and blocks), or `advance_to_next_subtask()` and leave it. Until then every action is refused
    (`replan_required`). Without any tasks only the blocked actions stay refused.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = Path(folder or ".").absolute()
        self._open: LocalGoal | RemoteGoal | None = None
        self.answer = Answer(allowed=True)
        """The answer to the last action: why it was refused, and what to do instead."""

    def load_or_init(self, goal: str = "") -> WorkState:
        """Open a new goal, or continue the one of this text; return its state.

        Under the daemon the goal is the daemon's, and `goal` is ignored. Raises LedgerError where the record is
        damaged or cannot be written (it stays unchanged), ValueError for an empty goal.
        """
        self.close()
        if os.environ.get("CLEW_FD"):
            try:
                self._open = RemoteGoal(daemon_of(int(os.environ["CLEW_FD"])))
            except (OSError, ValueError) as error:
                what = f"CLEW_FD={os.environ['CLEW_FD']} is not a connection to a daemon ({error})"
                hint = "let clew start this program, or unset CLEW_FD to keep the record in this folder"
                raise RuntimeError(f"{what}: {hint}") from error
            return self._open.work
        text = goal.strip() if isinstance(goal, str) else ""
        if not text:
            example = "load_or_init('Create a package with tests')"
            raise ValueError(f"a goal must be a text, not {goal!r:.80}: {example}")
        loops = load(None, os.environ, "environment").settings.loops
        self._open = LocalGoal(self._folder, text, loops)
        return self._open.work

    @property
    def state(self) -> WorkState:
        """The goal's tree, counts, blocks and probes; RuntimeError before `load_or_init`."""
        return self._goal.work

    @property
    def _goal(self) -> LocalGoal | RemoteGoal:
        if self._open is None:
            raise RuntimeError("no goal is open: call load_or_init(goal) first")
        return self._open

    def record_action(
        self,
        name: str,
        args: Mapping[str, Any] | None,
        result: str,
        error_msg: str = "",
        output: str | None = None,
        changed: bool | None = None,
    ) -> bool:
        """Store an action; False means that it was a loop and must not be repeated.

        `result`: success, failure, error or timeout. `changed` says whether the action changed the
        workspace; if it is not given, the disk is compared. `answer` has the reason.
        """
        report = _report(result, output, changed, error_msg)
        self.answer = self._goal.record(name, _named(name, args), report)
        return self.answer.allowed

    def propose(self, name: str, args: Mapping[str, Any] | None = None) -> Answer:
        """Ask whether an action may be done; `outcome` must follow, or it is `interrupted`, and twice so refused."""
        self.answer = self._goal.propose(name, _named(name, args))
        return self.answer

    def outcome(
        self,
        seq: int | Answer,
        result: str,
        output: str | None = None,
        changed: bool | None = None,
        error_msg: str = "",
    ) -> Answer:
        """Store the outcome of an allowed action, once; WrongState where no such action was allowed."""
        number = seq.seq if isinstance(seq, Answer) else seq
        self.answer = self._goal.outcome(number, _report(result, output, changed, error_msg))
        return self.answer

    def update_probe_state(self, probes: Mapping[str, bool]) -> None:
        """Store facts about the workspace, by name; other names stay unchanged."""
        if not isinstance(probes, Mapping):
            raise TypeError(f"probes must be names with true or false, not {probes!r:.80}")
        self._goal.see_probes({str(name): bool(ok) for name, ok in probes.items()})

    def mark_subtask_complete(self, success: bool = True, reason: str = "") -> str | None:
        """End it, or count a failure; returns which level must find another way (task, goal, person) or None."""
        return self._goal.complete(redact(str(reason or "")), success=success)

    def advance_to_next_subtask(self) -> bool:
        """Advance to the next pending subtask, from a blocked one too; False at the end, where it is `finish`ed."""
        goal = self._goal
        advanced = goal.advance()
        if not advanced and all_done(goal.work.goal):
            goal.finish("", success=True)
        return advanced

    def finish(self, summary: str = "", success: bool = True, tests_changed: str = "") -> bool:
        """End the goal; False if it is not over: a subtask is open, or a check of the daemon fails.

        `failing_checks` then has the outputs of the failing checks by name, and under `proof` what was changed of what
        judges the work; `tests_changed` is why the goal needs that: a person is asked. Under the daemon, a process
        that ends without this call counts as a crash; `advance_to_next_subtask` calls it when all is done.
        """
        told = redact(str(summary or "")), redact(str(tests_changed or ""))
        return self._goal.finish(told[0], success=success, tests_changed=told[1])

    @property
    def failing_checks(self) -> dict[str, str]:
        """The failing checks, because of which the goal is not finished, with their outputs."""
        return dict(self._goal.failing)

    def get_compact_context(self, max_chars: int = 2000) -> str:
        """Return the state of the work in at most `max_chars` characters, for an LLM's prompt."""
        goal = self._goal
        goal.settle()
        return compact_context(goal.work.recorded, max_chars, recent_actions=goal.recent_actions)

    def get_loop_summary(self) -> str:
        """Return the loops that were found and the actions that are blocked, one a line."""
        goal = self._goal
        goal.settle()
        lines = [f"Loops detected: {len(goal.loops_found)}"]
        for loop in goal.loops_found:
            to = f" → {loop['escalated_to']}" if loop["escalated_to"] else ""
            count = f" (attempt {loop['attempt_count']})" if loop["attempt_count"] else ""
            lines.append(
                f"{loop['kind']}{count}: {loop['action_signature'] or loop['evidence']}{to}"
            )
        lines += [f"blocked: {signature}" for signature in goal.work.blocked_actions]
        return "\n".join(lines) if lines[1:] else "No loops detected."

    def save(self) -> None:
        """Save changes made in place, now."""
        self._goal.save()

    _save_state = save

    def close(self) -> None:
        """Close the goal, which can be opened again; may be called twice."""
        goal, self._open = self._open, None
        if goal is not None:
            goal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _named(name: str, args: Mapping[str, Any] | None) -> dict[str, Any]:
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"an action needs the name of its tool, not {name!r:.80}")
    if args is not None and not isinstance(args, Mapping):
        wanted = "must be names with values, such as {'cmd': 'ls'}"
        raise TypeError(f"args of {name} {wanted}, not {args!r:.80}")
    return {str(key): _plain(value) for key, value in (args or {}).items()}


def _report(result: str, output: object, changed: bool | None, error_msg: str) -> ActionReport:
    if result not in _RESULTS:
        raise ValueError(f"result {result!r} must be one of {', '.join(_RESULTS)}")
    given = error_msg if output is None and error_msg else output
    if given is not None:
        plain = _plain(given)  # before it is cut: half of a key looks like none
        text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
        given = redact(cut(text, OUTPUT_BYTES))
    return ActionReport(str(result), given, changed)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, without anything that looks like a key."""
    match value:
        case bool() | int() | None:
            return value
        case float() if math.isfinite(value):
            return value
        case Mapping():
            return redacted({str(key): _plain(each) for key, each in value.items()})
        case bytes() | bytearray():
            return redact(value.decode("utf-8", "replace"))
        case list() | tuple() | set() | frozenset():
            is_set = isinstance(value, set | frozenset)
            return [_plain(each) for each in (sorted(value, key=repr) if is_set else value)]
    return redact(str(value))
