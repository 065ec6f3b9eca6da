"""The runbook agent: carries out the blocks of a goal file, step by step, without an LLM.

It derives its position from the recorded actions, never from memory, so that after a restart it continues at the
same step. It decides nothing: it proposes a step that was cut off, or has failed, again, and the daemon lets it run, or
asks a person. `main` starts it, or the llm agent.
"""

import socket
from collections.abc import Mapping, Sequence
from typing import Any

from clew_shared.record.model import Subtask
from clew_shared.record.signature import signature
from clew_shared.text.redact import redacted
from clew_shared.text.words import RESULTS, action_text, exit_text
from clew_shared.wire import protocol
from clew_shared.wire.answers import ActionOutcome
from clew_shared.wire.hello import Call, Entry, HelloAnswer
from clew_worker.agent.client import AgentClient, CannotContinue, RpcError, call_record, live

NAME = "runbook/1"
_OUTPUT_CHARS, _STEP_CHARS = 500, 120


class Runbook:
    """Works through the tree; ends without `finish` where the goal needs a person."""

    def __init__(self, daemon: AgentClient) -> None:
        self._daemon = daemon

    async def run(self) -> None:
        """Do subtask after subtask, then finish; `CannotContinue` where a subtask has nothing to run."""
        while True:
            hello = await self._daemon.greet(NAME)
            if hello.state.replan_required:
                return None  # a runbook has no alternative: the goal goes to a person
            if hello.state.subtask.status == "in_progress":
                try:
                    if not await self._subtask(hello, hello.state.subtask):
                        return None
                except RpcError as error:
                    if error.code == protocol.WRONG_STATE:  # a person is asked
                        return None
                    raise
            elif not await self._daemon.advance():
                return await self._finish()

    async def _subtask(self, hello: HelloAnswer, subtask: Subtask) -> bool:
        """Do the remaining steps of a subtask; False when the goal is over for this agent."""
        steps, transcript = subtask.steps, hello.state.transcript
        if not steps:
            why = f'the subtask "{subtask.description}" has no runnable block; give it one '
            why += "in the goal file, or use an llm agent (`agent:` in the front matter)"
            raise CannotContinue("configuration", why)
        total = subtask.actions_total - hello.attempt.from_actions or len(transcript)
        records = []
        failure, outcome = "", None
        for step in steps[position(steps, transcript, total, hello.spec.workspace) :]:
            outcome = (await self._daemon.act(step["tool"], step["args"])).outcome
            if outcome is None:
                return False
            records.append(call_record(step["tool"], step["args"], outcome, message=""))
            failure = _failure(step, outcome)
            if failure:
                break
        try:
            if failure and outcome and outcome.result == "interrupted":
                return True  # not the step's failure: the next round proposes it again, or asks
            return await self._complete(failure, len(steps))
        finally:  # at last: the goal's limits may end with the turn
            await self._daemon.call("reflect", mode="fast", tool_calls=records)

    async def _complete(self, failure: str, count: int) -> bool:
        """End a subtask, or this attempt at it, and the goal after the last one; False when the goal is over."""
        summary = failure or f"{count} step{'s' if count > 1 else ''} of the runbook done"
        if await self._daemon.complete_subtask(success=not failure, summary=summary):
            return False
        if failure or await self._daemon.advance():
            return True
        await self._finish()
        return False

    async def _finish(self) -> None:
        finished = await self._daemon.finish(success=True, summary="the steps are done")
        failing = ", ".join(check.name for check in finished.failing_checks)
        still_open = ", ".join(finished.open_subtasks)
        reason = f"checks failed: {failing}" if failing else f"still open: {still_open}"
        if not finished.accepted:
            await self._daemon.finish(success=False, summary=reason)


def position(
    steps: Sequence[Mapping[str, Any]], transcript: Sequence[Entry], total: int, workspace: str = ""
) -> int:
    """Return the index of the next step, given the subtask's last actions (oldest first) and their `total`.

    A step is done when its action succeeded; any other result leaves the position where it is. Where older actions
    are no longer in the transcript, the furthest start that explains the rest is taken. What failed and is no step any
    more, or a later one, was changed by a person since (`clew edit`).
    """
    names = [signature(step["tool"], redacted(step["args"]), workspace) for step in steps]
    calls = [call for call in transcript if isinstance(call, Call)]
    acted = [(c.signature or signature(c.name, dict(c.args)), c.result == "success") for c in calls]
    unknown = max(total - len(acted), 0)
    for start in range(min(unknown, len(steps)), -1, -1):
        at = start
        for name, succeeded in acted:
            if name in names[at : at + 1]:
                at += succeeded
            elif succeeded or unknown:
                break  # they do not follow from this start
        else:
            return at
    return 0


def _failure(step: Mapping[str, Any], outcome: ActionOutcome) -> str:
    if outcome.result == "success":
        return ""
    output = outcome.output[-_OUTPUT_CHARS:].strip()
    came = f"{RESULTS[outcome.result]}{exit_text(outcome.exit_code)}"
    named = action_text(step["tool"], step["args"], _STEP_CHARS)
    return f"`{named}` {came}" + (f": {output}" if output else "")


def main(name: str, sock_fd: int) -> int:
    """Run the agent `llm` or `runbook`; return its exit code: 0 (done, or stopped), 75 temporary, 78 configuration."""
    import uvloop

    async def work(daemon: AgentClient) -> None:
        if name != "llm":
            return await Runbook(daemon).run()
        from clew_worker.agent.llm import LlmAgent  # imports httpx2, which a runbook does without

        return await LlmAgent(daemon).run()

    return uvloop.run(live(socket.socket(fileno=sock_fd), work))
