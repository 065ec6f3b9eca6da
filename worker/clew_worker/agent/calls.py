"""The calls of a turn: each is sent to the daemon, in order, and its result goes into the memory."""

from collections.abc import Mapping
from typing import Any

from clew_shared.prompt.messages import plain_args
from clew_shared.text.shorten import without_middle
from clew_shared.wire.answers import Judged
from clew_shared.wire.hello import Call
from clew_worker.agent.finishing import GoalEnding
from clew_worker.agent.json_mode import ToolRequest
from clew_worker.agent.plans import plan_fault, read_checks, read_covers, tasks_of
from clew_worker.agent.rpc import RpcError
from clew_worker.agent.turn import AgentContext, AgentFinished

FINISH_AFTER_REFUSALS = 2
_NAME_CHARS = 200
_RATIONALE_CHARS = 1_000
_RECORD_CHARS = 1_000
_ENDED = ("stopped", "budget")


class CallHandler:
    """Carries out the calls of the model; raises `AgentFinished` where the goal is over for this agent."""

    def __init__(self, context: AgentContext, finishing: GoalEnding) -> None:
        self._context = context
        self._daemon = context.daemon
        self._memory = context.memory
        self._finishing = finishing

    async def carry_out(self, call: ToolRequest, rationale: str = "") -> bool:
        """Carry out one call; False where the calls after it are obsolete."""
        if call.fault:
            self._memory.answer(call.name, {}, call.fault)
            return False
        match call.name:
            case "finish":
                await self._finishing.finish(call.args)
            case "complete_subtask":
                await self._finishing.complete_subtask(call.args)
            case "plan":
                await self._plan(call.args)
            case _:
                return await self._act(call, rationale)
        return False

    async def _act(self, call: ToolRequest, rationale: str) -> bool:
        name = call.name[:_NAME_CHARS] or "?"
        try:
            answer = await self._daemon.call(
                "act", tool=name, args=call.args, rationale=rationale[:_RATIONALE_CHARS]
            )
        except (ValueError, RpcError) as error:
            if isinstance(error, RpcError) and error.stopping:
                raise
            self._memory.answer(call.name, plain_args(call.args, 200), str(error))
            return False
        judged = Judged.model_validate(answer)
        self._remember(call, judged, rationale)
        if judged.verdict == "blocked":
            await self._refused(call, judged)
            return False
        if judged.escalated_to:
            await self._context.refresh()
            return False
        return True

    def _remember(self, call: ToolRequest, judged: Judged, rationale: str) -> None:
        entry = entry_of(call, judged, self._memory.output_limit(call.name))
        self._memory.transcript.append(entry)
        self._memory.actions += entry.result != "blocked"
        waited = call.name == "wait"  # then the world outside may have changed
        changed = entry.result != "blocked" and (waited or entry.changed is not False)
        self._memory.changes += changed
        self._context.turn.reached_daemon = True
        self._context.turn.records.append(_record(entry, judged, rationale))
        self._context.show(judged.intervention)

    async def _refused(self, call: ToolRequest, judged: Judged) -> None:
        if judged.reason in _ENDED:
            raise AgentFinished
        self._context.turn.refused = call.name
        self._memory.refusals += 1
        await self._context.refresh()
        succeeded = any(c.result == "success" for c in self._memory.calls)
        many = self._memory.refusals >= FINISH_AFTER_REFUSALS
        checks, replan = self._memory.hello.checks, self._memory.state.replan_required
        if many and succeeded and checks and not replan:
            summary = "the last action was refused as a repetition"
            await self._finishing.try_finish(summary, asked=False)

    async def _plan(self, args: Mapping[str, Any]) -> None:
        replan = self._memory.state.replan_required
        tasks = tasks_of(args, replan)
        if fault := plan_fault(tasks):
            self._memory.answer("plan", {}, fault)
            return
        names = [one.description for one in self._memory.state.replaceable] if replan else []
        covers = {"covers": read_covers(args, names)} if replan else {}
        try:
            await self._daemon.call(
                "plan", tasks=tasks, replan=replan, checks=read_checks(args), **covers
            )
        except (RpcError, ValueError) as error:
            self._memory.answer("plan", {}, f"{error}. Continue with the current subtask.")
            return
        self._context.turn.reached_daemon = True
        await self._context.refresh(replanned=True)


def entry_of(call: ToolRequest, judged: Judged, max_chars: int) -> Call:
    """Return an action as the ledger would return it, its output cut to `max_chars`."""
    args, outcome = plain_args(call.args), judged.outcome
    if outcome is None:
        message = judged.message or judged.reason
        return Call(judged.seq, call.name, args, "blocked", message=message)
    return Call(
        judged.seq,
        call.name,
        args,
        outcome.result,
        output=without_middle(outcome.output, max_chars),
        changed=outcome.changed,
        exit_code=outcome.exit_code,
        at=judged.at,
    )


def _record(entry: Call, judged: Judged, rationale: str) -> dict[str, Any]:
    """Return the entry of the iteration record (docs/protocol.md); its tokens are not known here."""
    duration_s = judged.outcome.duration_s if judged.outcome else 0.0
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
