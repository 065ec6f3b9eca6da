"""One turn's calls: each is brought before the daemon, in order, and its answer is remembered.

Nothing is claimed for the model: a subtask is completed when it says so, a goal when checks agree.
Where what it says contradicts what was seen, it is asked once more.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from clew_shared.core.claims import FAILED
from clew_shared.prompt.messages import plain_args, shortened
from clew_shared.prompt.view import Call
from clew_shared.record.progress import normalise
from clew_shared.wire import protocol
from clew_worker.agent.client import AgentClient, RpcError
from clew_worker.agent.json_mode import ToolRequest
from clew_worker.agent.memory import Memory
from clew_worker.agent.plans import plan_fault, read_checks, read_plan, words

FINISH_AFTER_REFUSALS = 2
CHECK_OUTPUT_CHARS = 1_500
_NAME_CHARS = 200
_RATIONALE_CHARS = 1_000
_RECORD_CHARS = 1_000
_ENDED = ("stopped", "budget")


class Over(Exception):
    """There is nothing more for this agent to do."""


class Turns:
    """Carries out what the model asks for; `Over` when the goal is in other hands."""

    def __init__(self, daemon: AgentClient, memory: Memory, name: str) -> None:
        self._daemon = daemon
        self._memory = memory
        self._name = name
        self._doubted: set[tuple[int, str]] = set()
        self._checked_at = -1
        self.finishes_in_vain = 0
        """How often finishing was asked for with nothing changed since the checks failed."""
        self._failing = ""
        self.records: list[dict[str, Any]] = []
        self.refused = ""
        """The tool that this turn was refused, if any."""
        self.reached_daemon = False
        self.moved = False
        """This turn has ended a subtask."""
        self.on_completed: Callable[[], Awaitable[None]] | None = None
        """What is done when a subtask is completed, while its transcript is still there."""

    async def refresh(self, *, anew: bool = False) -> None:
        """Hear from the daemon how things stand."""
        self._memory.learn(await self._daemon.hello(self._name), anew=anew)

    def begin(self) -> None:
        """Forget the last turn."""
        self.records, self.refused = [], ""
        self.reached_daemon = self.moved = False

    async def carry_out(self, call: ToolRequest, rationale: str = "") -> bool:
        """Do one call; False where the calls after it have lost their ground."""
        if call.fault:
            self._memory.answer(call.name, {}, call.fault)
            return False
        match call.name:
            case "finish":
                return await self._finish(call.args)
            case "complete_subtask":
                return await self._complete(call.args)
            case "plan":
                return await self._plan(call.args)
            case _:
                return await self._act(call, rationale)

    # ---- actions

    async def _act(self, call: ToolRequest, rationale: str) -> bool:
        name = call.name[:_NAME_CHARS] or "?"
        try:
            answer = await self._daemon.call(
                "act", tool=name, args=call.args, rationale=rationale[:_RATIONALE_CHARS]
            )
        except (ValueError, RpcError) as error:
            if isinstance(error, RpcError) and error.code == protocol.STOPPING:
                raise
            self._memory.answer(call.name, plain_args(call.args, 200), str(error))
            return False
        self.reached_daemon = True
        entry = self._entry(call, answer)
        self._memory.transcript.append(entry)
        self._memory.actions += 1
        waited = call.name == "wait"  # then the world outside may have moved
        changed = entry.result != "blocked" and (waited or entry.changed is not False)
        self._memory.changes += changed
        self.records.append(_record(entry, answer, rationale))
        self.hear(answer)
        if answer["verdict"] == "blocked":
            return await self._refused(call, answer)
        if answer.get("escalated_to"):
            await self.refresh()
            return False
        return True

    def _entry(self, call: ToolRequest, answer: Mapping[str, Any]) -> Call:
        """Keep an action as the ledger would give it back."""
        entry = Call(int(answer.get("seq") or 0), call.name, plain_args(call.args), "blocked")
        if answer["verdict"] == "blocked":
            return replace(entry, message=str(answer.get("message") or answer.get("reason") or ""))
        outcome = answer["outcome"]
        return replace(
            entry,
            result=outcome["result"],
            output=shortened(
                str(outcome.get("output") or ""), self._memory.output_limit(call.name)
            ),
            changed=outcome.get("changed"),
            exit_code=outcome.get("exit_code"),
        )

    async def _refused(self, call: ToolRequest, answer: Mapping[str, Any]) -> bool:
        if answer.get("reason") in _ENDED:
            raise Over
        self.refused = call.name
        self._memory.refusals += 1
        await self.refresh()
        succeeded = any(c.result == "success" for c in self._memory.calls)
        many = self._memory.refusals >= FINISH_AFTER_REFUSALS
        if many and succeeded and self._memory.checks and not self._memory.replan:
            await self._try_finish("the last action was refused as a repetition")
        return False

    def hear(self, answer: Mapping[str, Any] | None) -> None:
        """Show the model an intervention that came with an answer."""
        intervention = (answer or {}).get("intervention")
        if intervention:
            self._memory.warn(str(intervention.get("message") or ""))

    def hear_notice(self, params: dict[str, Any]) -> None:
        """Show the model an intervention that came by itself."""
        self.hear({"intervention": params})

    # ---- the subtask and the goal

    async def _complete(self, args: Mapping[str, Any]) -> bool:
        success = _truth(args.get("success", True))
        summary = words(args.get("summary") or args.get("failure") or args.get("reason"))
        if success and (doubt := self._doubt("complete_subtask")):
            self._memory.answer("complete_subtask", args, doubt)
            return False
        if success and self._claims_all() and await self._questioned(summary):
            return False
        await self.end_subtask(success=success, summary=summary)
        return False

    async def end_subtask(self, *, success: bool, summary: str) -> None:
        """End the current subtask, or this attempt at it, and go on to what is next."""
        self.reached_daemon = True
        failure = "" if success else summary or "the agent gave up on this attempt"
        try:
            answer = await self._daemon.call(
                "complete_subtask", success=success, failure=failure, summary=summary
            )
            self.moved = success
            if success and self.on_completed is not None:
                await self.on_completed()
            if success and not answer.get("escalated_to"):
                following = await self._daemon.call("advance")
                if following.get("subtask") is None:
                    await self._try_finish(summary)
                    return
        except RpcError as error:
            if error.code == protocol.STOPPING:
                raise
            self._memory.say(f"Note: {error.message}")
        if not success:
            self._memory.say(f"This attempt is recorded as failed: {failure}")
        await self.refresh()

    async def _finish(self, args: Mapping[str, Any]) -> bool:
        summary = words(args.get("summary"))
        if "success" in args and not _truth(args["success"]):
            await self._daemon.call("finish", success=False, summary=summary)
            raise Over
        if doubt := self._doubt("finish"):
            self._memory.answer("finish", args, doubt)
            return False
        others = self._memory.others_open()
        if not self._memory.checks and others:
            left = "\n".join(f"- {name}" for name in others[:10])
            text = f"Not yet: this is still open:\n{left}\nComplete the subtask at hand first."
            self._memory.answer("finish", args, text)
            return False
        if self._claims_all():
            if not await self._questioned(summary):
                await self.end_subtask(success=True, summary=summary)
            return False
        await self._try_finish(summary)
        return False

    async def _questioned(self, summary: str) -> bool:
        """Let the daemon question a claim of success after a failed action, while the last subtask is still open.

        It asks once for each failed action, whichever epoch it was in, and tells of an open subtask otherwise.
        """
        last = self._last_call()
        if last is None or last.result not in FAILED:
            return False
        self.reached_daemon = True
        try:
            answer = await self._daemon.call("finish", success=True, summary=summary)
        except RpcError as error:
            if error.code == protocol.STOPPING:
                raise
            return False  # ending the subtask is refused as well, and says why
        if answer.get("accepted"):
            raise Over
        if message := answer.get("message"):
            self._memory.answer("finish", {"summary": summary}, f"Not finished: {message}")
        return bool(message)

    async def _try_finish(self, summary: str) -> None:
        """Let the daemon's checks decide; `Over` where they agree."""
        self.reached_daemon = True
        if not self.may_finish:
            self.finishes_in_vain += 1
            text = "Nothing was done since the checks failed. Change something first."
            self._memory.answer("finish", {"summary": summary}, text)
            return
        try:
            answer = await self._daemon.call("finish", success=True, summary=summary)
        except RpcError as error:
            if error.code == protocol.STOPPING:
                raise
            self._memory.answer("finish", {"summary": summary}, error.message)
            return
        if answer.get("accepted"):
            raise Over
        await self.refresh()
        if answer.get("failing_checks") or not answer.get("message"):
            self._checked_at, self.finishes_in_vain = self._memory.changes, 0
        self._memory.answer("finish", {"summary": summary}, self._not_accepted(answer))

    def _not_accepted(self, answer: Mapping[str, Any]) -> str:
        """Show what fails; the same failure again is named and not shown once more."""
        failing = answer.get("failing_checks") or ()
        message = answer.get("message")
        if failing and message:
            return f"{self._not_accepted({**answer, 'message': ''})}\n{message}"
        if message:
            return f"Not finished: {message}"
        if not failing:
            left = "\n".join(f"- {name}" for name in (answer.get("open_subtasks") or ())[:10])
            return f"Not finished: this is still open:\n{left}"
        parts = [(str(c["name"]), str(c.get("output") or "")) for c in failing]
        shown = "\n".join(f"- {n}:\n{shortened(o, CHECK_OUTPUT_CHARS)}" for n, o in parts)
        same = normalise(shown) == self._failing
        self._failing = normalise(shown)
        if same:
            names = ", ".join(name for name, _ in parts)
            return f"Not finished: these checks fail just as before: {names}. Try another change."
        return f"Not finished: these checks fail. Fix the files.\n{shown}"

    @property
    def may_finish(self) -> bool:
        """Whether finishing makes sense: not while nothing was changed since checks failed."""
        return self._checked_at != self._memory.changes

    def _last_call(self) -> Call | None:
        return next((c for c in reversed(self._memory.calls) if c.result != "blocked"), None)

    def _doubt(self, claim: str) -> str:
        """Ask back, once, where a claim of success contradicts what was seen in this subtask.

        A failed action at the end of the last subtask is the daemon's to ask about, on record: see `_questioned`.
        """
        last = self._last_call()
        key = (len(self._memory.calls), claim)
        if key in self._doubted or self._memory.checks or not self._memory.subtask_open:
            return ""
        if last is None:
            doubt = "Nothing was done for it yet. Do it first."
        elif last.result == "success" or self._is_daemons(last):
            return ""
        else:
            doubt = f"But the last call, {last.name}, ended in {last.result}. Fix that first."
        self._doubted = {(key[0], "finish"), (key[0], "complete_subtask")}
        return f"{doubt} If it really is done, call {claim} again."

    def _is_daemons(self, last: Call) -> bool:
        return last.result in FAILED and self._claims_all()

    def _claims_all(self) -> bool:
        """Tell whether completing the current subtask completes a goal without checks."""
        alone = self._memory.subtask_open and not self._memory.others_open()
        return alone and not self._memory.checks

    # ---- plans

    async def _plan(self, args: Mapping[str, Any]) -> bool:
        replan = self._memory.replan
        tasks = read_plan(args)
        if replan == "task" and len(tasks) > 1:
            joined = [s for task in tasks for s in task["subtasks"]]
            tasks = [{"description": tasks[0]["description"], "subtasks": joined}]
        if fault := plan_fault(tasks):
            self._memory.answer("plan", {}, fault)
            return False
        try:
            await self._daemon.call("plan", tasks=tasks, replan=replan, checks=read_checks(args))
        except (RpcError, ValueError) as error:
            self._memory.answer("plan", {}, f"{error}. Continue with the current subtask.")
            return False
        self.reached_daemon = True
        await self.refresh(anew=True)
        return False


def _record(entry: Call, answer: Mapping[str, Any], rationale: str) -> dict[str, Any]:
    """Make the entry of the iteration record (contract, section 9); the tokens are not known here."""
    duration_s = (answer.get("outcome") or {}).get("duration_s") or 0.0
    known = entry.result in ("success", "failure", "timeout")
    return {
        "tool": entry.name,
        "params": plain_args(entry.args, _RECORD_CHARS),
        "raw_output": (entry.output or entry.message)[:_RECORD_CHARS],
        "outcome": entry.result if known else "error",
        "execution_time": duration_s,
        "cost": {"tokens": 0, "time": duration_s},
        "tool_selection_rationale": rationale[:_RATIONALE_CHARS],
    }


def _truth(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() not in ("false", "no", "0", "")
    return bool(value)
