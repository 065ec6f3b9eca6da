"""The calls of a turn: each is sent to the daemon, in order, and its result goes into the memory."""

from collections.abc import Mapping
from typing import Any

from clew_shared.prompt.messages import plain_args
from clew_shared.text.shorten import without_middle
from clew_shared.wire.answers import Judged
from clew_shared.wire.hello import Call
from clew_worker.agent.finishing import GoalEnding
from clew_worker.agent.json_mode import ToolRequest
from clew_worker.agent.plans import plan_fault, read_checks, read_covers, read_plan
from clew_worker.agent.rpc import RpcError
from clew_worker.agent.turn import RECORD_CHARS, AgentContext, AgentFinished, call_record

ENDED = ("stopped", "budget")
FINISH_AFTER_REFUSALS = 2
_NAME_CHARS = 200


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
            judged = await self._daemon.act(name, call.args, rationale[:RECORD_CHARS])
        except (ValueError, RpcError) as error:
            if isinstance(error, RpcError) and error.stopping:
                raise
            self._memory.answer(call.name, plain_args(call.args, 200), str(error))
            return False
        self._remember(call, judged, rationale)
        if judged.verdict == "blocked":
            await self._refused(call, judged)
            return False
        if judged.escalated_to:
            await self._context.refresh()
            return False
        return True

    def _remember(self, call: ToolRequest, judged: Judged, rationale: str) -> None:
        memory, turn, outcome = self._memory, self._context.turn, judged.outcome
        said = judged.message or judged.reason
        entry = Call(judged.seq, call.name, plain_args(call.args), "blocked", message=said)
        if outcome:
            output = without_middle(outcome.output, memory.output_limit(call.name))
            entry = Call(
                judged.seq,
                call.name,
                plain_args(call.args),
                outcome.result,
                output=output,
                changed=outcome.changed,
                exit_code=outcome.exit_code,
                at=judged.at,
            )
            memory.actions += 1
            # after a wait the world outside may have changed
            memory.changes += call.name == "wait" or outcome.changed is not False
        memory.transcript.append(entry)
        turn.reached_daemon = True
        turn.records.append(
            call_record(call.name, call.args, outcome, message=said, rationale=rationale)
        )
        self._context.show(judged.intervention)

    async def _refused(self, call: ToolRequest, judged: Judged) -> None:
        if judged.reason in ENDED:
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
        tasks = read_plan(args, replan)
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
