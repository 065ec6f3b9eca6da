"""The runbook agent: carries out the blocks of a goal file, step by step, without an LLM.

It derives its position from the recorded actions, never from memory, so that after a restart it continues at the
same step. It decides nothing: it proposes a step that was cut off, or has failed, again, and the daemon lets it run, or
asks a person.
"""

from collections.abc import Sequence
from typing import Any

from clew_shared.record.model import StepStatus
from clew_shared.record.signature import signature
from clew_shared.text.redact import redacted
from clew_shared.text.words import RESULTS, action_text, exit_text
from clew_shared.wire import protocol
from clew_shared.wire.answers import ActionOutcome, Advanced, Finished, Judged
from clew_shared.wire.hello import Call, Entry, HelloAnswer, SentStep, SentSubtask
from clew_worker.agent.client import AgentClient
from clew_worker.agent.life import CannotContinue
from clew_worker.agent.rpc import RpcError

NAME = "runbook/1"
_OUTPUT_CHARS = 500
_STEP_CHARS = 120


class Runbook:
    """Works through the tree; ends without `finish` where the goal needs a person."""

    def __init__(self, daemon: AgentClient) -> None:
        self._daemon = daemon

    async def run(self) -> None:
        """Do subtask after subtask, then finish; `CannotContinue` where a subtask has nothing to run."""
        while True:
            hello = await self._daemon.greet(NAME)
            if hello.state.replan_required:
                return  # a runbook has no alternative: the goal goes to a person
            if hello.state.subtask.status == "in_progress":
                if not await self._subtask(hello, hello.state.subtask):
                    return
            elif not await self._advance():
                await self._finish(hello)
                return

    async def _advance(self) -> bool:
        answer = Advanced.model_validate(await self._daemon.call("advance"))
        return answer.subtask is not None

    async def _subtask(self, hello: HelloAnswer, subtask: SentSubtask) -> bool:
        """Do the remaining steps of a subtask; False when the goal is over for this agent."""
        steps, transcript = subtask.steps, hello.state.transcript
        if not steps:
            raise CannotContinue(
                "configuration",
                f'the subtask "{subtask.description}" has no runnable block; '
                "give it one in the goal file, or use an llm agent (`agent:` in the front matter)",
            )
        total = subtask.actions_total - hello.attempt.from_actions or len(transcript)
        at = position(steps, transcript, total, hello.spec.workspace)
        records: list[dict[str, Any]] = []
        failure, interrupted = "", False
        for step in steps[at:]:
            outcome = await self._carried_out(step)
            if outcome is None:
                return False
            records.append(_record(step, outcome))
            interrupted = outcome.result == "interrupted"
            failure = "" if interrupted else _failure(step, outcome)
            if interrupted or failure:
                break
        try:
            if interrupted:
                return True  # not the step's failure: the next round proposes it again, or asks
            return await self._complete(hello, failure, len(steps))
        finally:  # at last: the goal's limits may end with the turn
            await self._daemon.call("reflect", mode="fast", tool_calls=records)

    async def _carried_out(self, step: SentStep) -> ActionOutcome | None:
        """Have a step carried out; None where it was not, and a person is asked."""
        try:
            answer = await self._daemon.call("act", tool=step.tool, args=step.args)
        except RpcError as error:
            if error.code == protocol.WRONG_STATE:
                return None
            raise
        return Judged.model_validate(answer).outcome

    async def _complete(self, hello: HelloAnswer, failure: str, count: int) -> bool:
        """End a subtask, or this attempt at it, and the goal after the last one; False when the goal is over."""
        summary = "" if failure else f"{count} step{'s' if count > 1 else ''} of the runbook done"
        try:
            answer = await self._daemon.call(
                "complete_subtask", success=not failure, failure=failure, summary=summary
            )
        except RpcError as error:
            if error.code == protocol.WRONG_STATE:  # blocked meanwhile: a replan is required
                return False
            raise
        if answer.get("escalated_to"):
            return False
        if failure or await self._advance():
            return True
        await self._finish(hello)
        return False

    async def _finish(self, hello: HelloAnswer) -> None:
        answer = await self._daemon.call("finish", success=True, summary=done_summary(hello))
        finished = Finished.model_validate(answer)
        if finished.accepted:
            return
        failing = ", ".join(check.name for check in finished.failing_checks)
        still_open = ", ".join(finished.open_subtasks)
        reason = f"checks failed: {failing}" if failing else f"still open: {still_open}"
        await self._daemon.call("finish", success=False, summary=reason)


def done_summary(hello: HelloAnswer) -> str:
    """Return what was done, and by whom: what this agent has completed has a summary, what a person ticked has none."""
    over = [
        f"{t}.{s}"
        for t, task in enumerate(hello.state.goal.tasks, start=1)
        for s, one in enumerate(task.subtasks, start=1)
        if not one.open and one.status != StepStatus.BLOCKED
    ]
    ended = zip(over, hello.state.finished, strict=False)
    ticked = [at for at, one in ended if one.status == StepStatus.COMPLETED and not one.summary]
    if not ticked:
        return "all steps succeeded"
    verb = "was" if len(ticked) == 1 else "were"
    return f"all steps are done; {', '.join(ticked)} {verb} marked as done by you"


def position(
    steps: Sequence[SentStep], transcript: Sequence[Entry], total: int, workspace: str = ""
) -> int:
    """Return the index of the next step, given the subtask's last actions (oldest first) and their `total`.

    A step is done when its action succeeded; any other result leaves the position where it is. Where older actions
    are no longer in the transcript, the furthest start that explains the rest is taken. What failed and is no step any
    more, or a later one, was changed by a person since (`clew edit`).
    """
    names = [signature(step.tool, redacted(step.args), workspace) for step in steps]
    acted = [_done(entry) for entry in transcript if isinstance(entry, Call)]
    unknown = max(total - len(acted), 0)
    if not unknown:
        acted = _without_changed(names, acted)
    furthest = min(unknown, len(steps))
    for start in range(furthest, -1, -1):
        reached = _walk(names, acted, start)
        if reached is not None:
            return reached
    return 0


def _without_changed(
    names: Sequence[str], acted: Sequence[tuple[str, bool]]
) -> list[tuple[str, bool]]:
    """Return the actions without those that failed where another step is now."""
    at, kept = 0, []
    for name, succeeded in acted:
        is_here = at < len(names) and name == names[at]
        if is_here or succeeded:
            kept.append((name, succeeded))
            at += is_here and succeeded
    return kept


def _done(call: Call) -> tuple[str, bool]:
    """Return an action's signature, which does not depend on shortened arguments, and whether it succeeded."""
    return call.signature or signature(call.name, dict(call.args)), call.result == "success"


def _walk(names: Sequence[str], acted: Sequence[tuple[str, bool]], start: int) -> int | None:
    at = start
    for name, succeeded in acted:
        if at >= len(names) or name != names[at]:
            return None
        at += succeeded
    return at


def _failure(step: SentStep, outcome: ActionOutcome) -> str:
    """Return why a step failed; "" if it did not."""
    if outcome.result == "success":
        return ""
    output = outcome.output[-_OUTPUT_CHARS:].strip()
    came = f"{RESULTS[outcome.result]}{exit_text(outcome.exit_code)}"
    return f"{_named(step)} {came}" + (f": {output}" if output else "")


def _record(step: SentStep, outcome: ActionOutcome) -> dict[str, Any]:
    """Return the entry of the iteration record (docs/protocol.md)."""
    known = outcome.result in ("success", "failure", "timeout")
    return {
        "tool": step.tool,
        "params": {key: str(value)[:_OUTPUT_CHARS] for key, value in step.args.items()},
        "raw_output": outcome.output[:1000],
        "outcome": outcome.result if known else "error",
        "execution_time": outcome.duration_s,
    }


def _named(step: SentStep) -> str:
    return f"`{action_text(step.tool, step.args, _STEP_CHARS)}`"
