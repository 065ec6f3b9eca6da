"""The runbook agent: carries out the blocks of a goal file, step by step; it needs no LLM.

What is done already it reads from the recorded actions, never from memory, so that after a restart
it continues at the very step. It decides nothing: a step that fails twice is the daemon's to
escalate.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from clew_shared.prompt.view import current
from clew_shared.record.signature import signature
from clew_shared.text.redact import redacted
from clew_shared.wire import protocol
from clew_worker.agent.client import AgentClient, RpcError
from clew_worker.agent.life import Leave

NAME = "runbook/1"
_HEAD_CHARS = 500
_STEP_CHARS = 120
_CANNOT_GO_ON = ("replan_required", "stopped", "budget")


class Runbook:
    """Works through the tree; ends without `finish` where the goal needs a person."""

    def __init__(self, daemon: AgentClient) -> None:
        self._daemon = daemon
        self._hello: dict[str, Any] = {}

    async def run(self) -> None:
        """Do subtask after subtask, then finish; `Leave` where a subtask has nothing to run."""
        while True:
            self._hello = await self._daemon.hello(NAME)
            state = self._hello["state"]
            if state.get("replan_required"):
                return  # a runbook knows no other way: the goal goes to a person
            _, subtask = current(state)
            if subtask.get("status") == "in_progress":
                if not await self._subtask(subtask, state.get("transcript") or []):
                    return
            elif not await self._advance():
                await self._finish()
                return

    async def _advance(self) -> bool:
        answer = await self._daemon.call("advance")
        return answer.get("subtask") is not None

    async def _subtask(
        self, subtask: Mapping[str, Any], transcript: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Do what is left of a subtask; False when the goal is out of this agent's hands."""
        steps = subtask.get("steps") or []
        if not steps:
            raise Leave(
                "configuration",
                f'the subtask "{subtask["description"]}" has no runnable block; '
                "give it one in the goal file, or use an llm agent (`agent:` in the front matter)",
            )
        workspace = (self._hello.get("spec") or {}).get("workspace") or ""
        total = int(subtask.get("actions_total") or len(transcript))
        at = position(steps, transcript, total, workspace)
        if at < len(steps):
            self._ask_about_interruption(steps[at], transcript)
        calls: list[dict[str, Any]] = []
        failure, interrupted = "", False
        for step in steps[at:]:
            answer = await self._daemon.call("act", tool=step["tool"], args=step["args"])
            if answer.get("reason") in _CANNOT_GO_ON:
                return False
            calls.append(_record(step, answer))
            interrupted = _result(answer) == "interrupted"
            failure = "" if interrupted else _failure(step, answer)
            if interrupted or failure:
                break
        await self._daemon.call("reflect", mode="fast", tool_calls=calls)
        if interrupted:
            return True  # no failure of the step: the next round proposes it again, or asks
        return await self._complete(failure, len(steps))

    async def _complete(self, failure: str, count: int) -> bool:
        summary = "" if failure else f"{count} step{'s' if count > 1 else ''} of the runbook done"
        try:
            answer = await self._daemon.call(
                "complete_subtask", success=not failure, failure=failure, summary=summary
            )
        except RpcError as error:
            if error.code == protocol.WRONG_STATE:  # blocked meanwhile: a replan is asked for
                return False
            raise
        return not answer.get("escalated_to")

    def _ask_about_interruption(
        self, step: Mapping[str, Any], transcript: Sequence[Mapping[str, Any]]
    ) -> None:
        """Hand an interrupted step to a person where the goal asks for that, until they answer."""
        last = transcript[-1] if transcript else {}
        spec = self._hello.get("spec") or {}
        if last.get("result") != "interrupted" or spec.get("on_interrupt") != "ask":
            return
        if self._hello.get("feedback"):
            return
        raise Leave(
            "configuration",
            f"{_named(step)} was interrupted and its effect is unknown. Check the workspace: "
            "may it be run again? Answer with `clew feedback`.",
        )

    async def _finish(self) -> None:
        answer = await self._daemon.call("finish", success=True, summary="all steps succeeded")
        if answer.get("accepted"):
            return
        failing = ", ".join(check["name"] for check in answer.get("failing_checks") or ())
        still_open = ", ".join(answer.get("open_subtasks") or ())
        reason = f"checks failed: {failing}" if failing else f"still open: {still_open}"
        await self._daemon.call("finish", success=False, summary=reason)


def position(
    steps: Sequence[Mapping[str, Any]],
    transcript: Sequence[Mapping[str, Any]],
    total: int,
    workspace: str = "",
) -> int:
    """Say which step is next, given the subtask's last actions (oldest first) and their `total`.

    A step is done when its action succeeded; any other result leaves it where it is. Where older
    actions are not in the transcript any more, the furthest start that explains what is there wins.
    """
    names = [signature(step["tool"], redacted(step["args"]), workspace) for step in steps]
    acted = [_done(action) for action in transcript if "name" in action]
    furthest = min(max(total - len(acted), 0), len(steps))
    for start in range(furthest, -1, -1):
        reached = _walk(names, acted, start)
        if reached is not None:
            return reached
    return 0


def _done(action: Mapping[str, Any]) -> tuple[str, bool]:
    """Return an action's signature, by which it is known however its arguments are shortened, and its success."""
    name = action.get("signature") or signature(action["name"], action["args"])
    return name, action["result"] == "success"


def _walk(names: Sequence[str], acted: Sequence[tuple[str, bool]], start: int) -> int | None:
    at = start
    for name, succeeded in acted:
        if at >= len(names) or name != names[at]:
            return None
        at += succeeded
    return at


def _result(answer: Mapping[str, Any]) -> str:
    return str((answer.get("outcome") or {}).get("result", ""))


def _failure(step: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """Say why a step failed; empty if it did not."""
    if answer["verdict"] == "blocked":
        return f"{_named(step)} was refused: {answer.get('message', '')}"
    outcome = answer["outcome"]
    if outcome["result"] == "success":
        return ""
    code = outcome.get("exit_code")
    how = f"{outcome['result']} (exit code {code})" if code else outcome["result"]
    said = (outcome.get("output") or "")[-_HEAD_CHARS:].strip()
    return f"{_named(step)}: {how}" + (f": {said}" if said else "")


def _record(step: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Make the entry of the iteration record (contract, section 9)."""
    outcome = answer.get("outcome") or {}
    result = outcome.get("result", "error")
    return {
        "tool": step["tool"],
        "params": {key: str(value)[:_HEAD_CHARS] for key, value in step["args"].items()},
        "raw_output": str(outcome.get("output") or answer.get("message") or "")[:1000],
        "outcome": result if result in ("success", "failure", "timeout") else "error",
        "execution_time": outcome.get("duration_s") or 0.0,
    }


def _named(step: Mapping[str, Any]) -> str:
    args = step["args"]
    what = args.get("cmd") or args.get("path") or json.dumps(args, sort_keys=True)
    return f"{step['tool']} `{str(what)[:_STEP_CHARS]}`"
