"""What an llm agent knows of its goal, and what its model's calls do: each is sent to the daemon, in order.

The daemon keeps state and transcript, and each turn begins with its answer to `hello`. What a turn adds, how far the
transcript is folded and how tokens are counted is reported with the turn, so that any next prompt, of the same epoch or
of another, continues where this one stopped. A subtask is completed when the model says so, a goal when its checks
agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from clew_shared.guidance import CheckNotes
from clew_shared.prompt.layout import PromptLayout, lay_out
from clew_shared.prompt.messages import output_chars, plain_args, warning
from clew_shared.prompt.view import CHARS_PER_TOKEN, PromptView, is_small, recorded_mode
from clew_shared.record.spec import Prompt
from clew_shared.text.redact import redact
from clew_shared.text.shorten import without_middle
from clew_shared.wire.answers import Checked, Judged
from clew_shared.wire.hello import Call, Entry, HelloAnswer, HelloState, Said
from clew_worker.agent.client import (
    ENDED,
    GAVE_UP,
    RECORD_CHARS,
    AgentClient,
    CallRecord,
    RpcError,
    call_record,
)
from clew_worker.agent.llm_client import Completion
from clew_worker.agent.written import RUNGS, ToolRequest, plain_text, record_plan, truth

CHECKED = "The checks pass now."
NOTHING_DONE = "Nothing was done for it yet. Do it first. If it really is done, call {} again."
FINISH_AFTER_REFUSALS = 2
TURN_ENTRIES_MAX = 100
_NAME_CHARS = 200
CHARS_PER_TOKEN_MIN, CHARS_PER_TOKEN_MAX, CALIBRATION_WEIGHT = 1.5, 8.0, 0.3
MISSES_MAX = 10  # so many answers without a native call may a model give that has made one


class Memory:
    """The agent's copy of the goal, and what the present turn adds to its transcript and is recorded of it.

    `refused` is the tool that was refused in it; `changes` counts actions that changed something, or may have. `prompt`
    is reported with each turn, and says how the model is asked. Of it `rung` is the `response_format` of JSON mode;
    `tightness` is how often the server found a prompt too long; `chars_per_token` goes by its own counts.
    """

    def __init__(self, hello: HelloAnswer) -> None:
        self.hello = hello
        self.turn: list[Entry] = []
        self.records: list[CallRecord] = []
        self.refused = ""
        self.changes = 0
        self._misses = 0
        self.auto = hello.options.agent.mode == "auto"
        self.prompt = hello.state.prompt or Prompt()
        self.change(mode=recorded_mode(hello), rung=min(self.prompt.rung, RUNGS - 1))

    def change(self, **form: object) -> None:
        self.prompt = self.prompt.model_copy(update=form)

    def laid_out(self) -> PromptLayout:
        """Return the prompt, folded as far as it must be, and prepare its report."""
        state = self.state.model_copy(update={"prompt": self.prompt})
        view = PromptView.on_record(self.hello.model_copy(update={"state": state}))
        layout = lay_out(view)
        window, folded = layout.view.window.name.lower(), layout.view.folded
        self.change(sha=layout.sha, chars=layout.chars, window=window, folded=folded)
        return layout

    def answered(self, completion: Completion, calls: Sequence[ToolRequest]) -> None:
        """Ask for JSON from now on, if that is free, where a model has not yet made a native call that can be read.

        It has written a call as text, or one whose arguments are no JSON; or made no call, twice: it may think aloud.
        An answer that was cut off says nothing.
        """
        self.change(served=completion.served or self.prompt.served)
        if completion.calls and not any(call.fault for call in calls):
            self._misses = -MISSES_MAX
        elif completion.finish_reason != "length":
            self._misses += 2 if calls else 1
        if self.auto and self.prompt.mode == "tools" and self._misses > 1:
            self.change(mode="json", rung=0)

    def calibrate(self, tokens: int) -> None:
        """Adjust the average characters per token to the server's own count; the first one replaces the guess."""
        before, chars = self.prompt.chars_per_token, self.prompt.chars
        if tokens > 0 and chars > 0:  # else it tells nothing
            found = min(max(chars / tokens, CHARS_PER_TOKEN_MIN), CHARS_PER_TOKEN_MAX)
            weight = CALIBRATION_WEIGHT if before != CHARS_PER_TOKEN else 1.0
            self.change(chars_per_token=round(before + weight * (found - before), 4))

    @property
    def state(self) -> HelloState:
        return self.hello.state

    @property
    def calls(self) -> list[Call]:
        entries = (*self.state.transcript, *self.turn)
        return list({e.seq: e for e in entries if isinstance(e, Call)}.values())

    @property
    def acted(self) -> list[Call]:
        return [call for call in self.calls if call.recorded and call.result != "blocked"]

    @property
    def refusals(self) -> int:
        return sum(call.result == "blocked" for call in self.calls)

    @property
    def fails_again(self) -> bool:
        """Whether the last recorded call repeats the one before it, and neither was a success."""
        last = [call for call in self.calls if call.recorded][-2:]
        same = len(last) == 2 and (last[0].name, last[0].args) == (last[1].name, last[1].args)
        return same and all(call.result != "success" for call in last)

    def report(self, tokens: int) -> Mapping[str, object]:
        """Return for `reflect` what the turn has added, and the last prompt as the next one needs it; end the turn."""
        prompt = self.prompt.model_dump(exclude={"model", "cuts", "kept", "ending"})
        each = tokens // max(len(self.records), 1)
        calls = [{**r, "cost": {"tokens": each, "time": r["execution_time"]}} for r in self.records]
        told, self.turn, self.records = turn_of(self.turn), [], []
        return {"tool_calls": calls, "turn": told, "prompt": prompt}

    def note(self, text: str, role: Literal["user", "assistant"] = "user") -> None:
        self.turn.append(Said(role, self._plain(text)))

    def warn(self, message: str) -> None:
        self.turn.append(warning(message))

    def answer(self, name: str, args: Mapping[str, Any], text: str) -> None:
        """Add the answer to a call that no executor carried out: it has no number in the ledger."""
        number = min([0, *(call.seq for call in self.calls)]) - 1
        self.turn.append(Call(number, name, plain_args(args), "error", self._plain(text)))

    def _plain(self, text: str) -> str:
        return without_middle(redact(text), output_chars(self.hello.options.context.max_tokens))


class AgentFinished(Exception):
    """There is nothing more for this agent to do."""


class Work:
    """Carries out the calls of the model; raises `AgentFinished` where the goal is over for this agent."""

    def __init__(self, daemon: AgentClient, memory: Memory) -> None:
        self.daemon = daemon
        self.memory = memory
        # finishes with nothing changed since the checks failed; -1: none refused yet
        self.in_vain = 0
        self._asked_to_begin = self._slow = False
        self._checked_at = -1
        self._notes = CheckNotes()

    @property
    def can_finish(self) -> bool:
        """Whether finishing makes sense: not while nothing was changed since the checks failed."""
        return self._checked_at != self.memory.changes

    async def carry_out(self, call: ToolRequest, rationale: str = "") -> bool:
        """Carry out one call; False where the calls after it are obsolete."""
        if call.fault:
            self.memory.answer(call.name, {}, call.fault)
            return False
        match call.name:
            case "finish":
                await self._finish(call.args)
            case "complete_subtask":
                await self._complete_subtask(call.args)
            case "plan":
                await self._plan(call.args)
            case _:
                return await self._act(call, rationale)
        return False

    async def _act(self, call: ToolRequest, rationale: str) -> bool:
        name = call.name[:_NAME_CHARS] or "?"
        try:
            judged = await self.daemon.act(name, call.args, rationale[:RECORD_CHARS])
        except (ValueError, RpcError) as error:
            self.memory.answer(call.name, plain_args(call.args, 200), str(error))
            return False
        self._remember(call, judged, rationale)
        if judged.reason in ENDED:
            raise AgentFinished
        if judged.verdict == "blocked":
            await self._refused(call, judged)
        return judged.verdict != "blocked" and not judged.escalated_to

    def _remember(self, call: ToolRequest, judged: Judged, rationale: str) -> None:
        memory, outcome = self.memory, judged.outcome
        said = judged.message or judged.reason
        result, changed = (outcome.result, outcome.changed) if outcome else ("blocked", False)
        args = plain_args(call.args)
        memory.turn.append(Call(judged.seq, call.name, args, result, changed=changed))
        # after a wait the world outside may have changed
        memory.changes += bool(outcome) and (call.name == "wait" or changed is not False)
        record = call_record(call.name, call.args, outcome, message=said, rationale=rationale)
        memory.records.append(record)
        if judged.intervention:
            memory.warn(judged.intervention.message)

    async def _refused(self, call: ToolRequest, judged: Judged) -> None:
        self.memory.refused = call.name
        succeeded = any(c.result == "success" for c in self.memory.calls)
        many = self.memory.refusals >= FINISH_AFTER_REFUSALS
        replan = judged.escalated_to or judged.reason == "replan_required"
        if many and succeeded and self.memory.hello.checks and not replan:
            summary = "the last action was refused as a repetition"
            await self.try_finish(summary, asked=False)

    async def _plan(self, args: Mapping[str, Any]) -> None:
        try:
            fault = await record_plan(self.daemon, args, self.memory.state)
        except (RpcError, ValueError) as error:
            fault = f"{error}. Continue with the current subtask."
        if fault:
            self.memory.answer("plan", {}, fault)
        else:
            self.memory.turn.clear()  # it is of the conversation before

    async def _complete_subtask(self, args: Mapping[str, Any]) -> None:
        success = truth(args.get("success", True))
        summary = plain_text(args.get("summary") or args.get("failure") or args.get("reason"))
        if not (success and self._must_begin("complete_subtask", args)):
            await self.end_subtask(success=success, summary=summary)

    async def end_subtask(self, *, success: bool, summary: str) -> None:
        try:
            level = await self.daemon.complete_subtask(success=success, summary=summary)
            if success and not level:
                if await self.daemon.advance():
                    self.memory.turn.clear()
                else:
                    await self.try_finish(summary)
        except RpcError as error:
            self.memory.note(f"Note: {error.message}")
        if not success:
            self.memory.note(f"This attempt is recorded as failed: {summary or GAVE_UP}")

    async def _finish(self, args: Mapping[str, Any]) -> None:
        summary = plain_text(args.get("summary"))
        if "success" in args and not truth(args["success"]):
            await self.daemon.finish(success=False, summary=summary)
            raise AgentFinished
        if self._must_begin("finish", args):
            return
        state = self.memory.state
        is_last = state.subtask.open and len(state.open_subtasks) == 1
        if is_last and not self.memory.hello.checks:  # completing it completes the goal
            await self.end_subtask(success=True, summary=summary)
        else:
            await self.try_finish(summary, plain_text(args.get("tests_changed")))

    async def try_finish(self, summary: str, why: str = "", *, asked: bool = True) -> None:
        """Ask the daemon to finish the goal, which its checks decide; `asked`: the model wants it.

        `why` is why the goal needs changed tests. Where nothing was done since the checks failed, they are run once
        more only if that may end the attempt.
        """
        again = not self.can_finish
        self.in_vain += again
        if again and not (asked and self.in_vain < 2 and self.memory.hello.attempt.limit > 1):
            text = "Nothing was done since the checks failed. Change something first."
            self.memory.answer("finish", {"summary": summary}, text)
            return
        try:
            answer = await self.daemon.finish(success=True, summary=summary, tests_changed=why)
        except RpcError as error:
            self.memory.answer("finish", {"summary": summary}, error.message)
            return
        if answer.accepted:
            raise AgentFinished
        if answer.failing_checks or not answer.message:
            self._checked_at, self.in_vain = self.memory.changes, self.in_vain if again else 0
        told = self._notes.unfinished(answer, self.memory.hello.spec.workspace)
        self.memory.answer("finish", {"summary": summary}, told)

    async def check_after_change(self) -> None:
        """Have the checks of a small goal run after a change: else only a `finish` shows that a part is missing."""
        hello = self.memory.hello
        within_s = hello.options.context.check_within_s
        if self._slow or not (within_s and hello.checks and is_small(hello) and self.can_finish):
            return
        try:
            answer = await self.daemon.ask(Checked, "check", within_s=within_s)
        except RpcError:
            return
        self._slow = answer.passed is None
        if answer.passed:
            self.memory.note(CHECKED)
        elif answer.passed is False:
            # the model has not asked to finish yet: its first two requests still reach the daemon
            self._checked_at, self.in_vain = self.memory.changes, -1
            self.memory.note(self._notes.unasked(answer.failing_checks, hello.spec.workspace))

    def _must_begin(self, claim: str, args: Mapping[str, Any]) -> bool:
        """Answer the first claim of success, in a goal without checks, for which nothing was done."""
        memory = self.memory
        done = memory.acted or memory.hello.checks or not memory.state.subtask.open
        if done or self._asked_to_begin:
            return False
        self._asked_to_begin = True
        memory.answer(claim, args, NOTHING_DONE.format(claim))
        return True


def turn_of(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the entries of a turn for `reflect`: recorded actions by their numbers, all else as it is shown."""
    return [
        {"seq": entry.seq} if isinstance(entry, Call) and entry.recorded else asdict(entry)
        for entry in entries[:TURN_ENTRIES_MAX]
    ]
