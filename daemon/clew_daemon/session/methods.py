"""What each method of the worker protocol does: core first, then the ledger, then the answer.

One call at a time for one agent. A method that changes anything ends by waiting until that is durable; only
then does the agent hear of it (contract, section 7).
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from clew_daemon.processes.executor import ExecutorDied, OutOfResources, WorkspaceLostError
from clew_daemon.record.doing import Work
from clew_daemon.record.hello import Remembered, subtask_view, task_view, told
from clew_daemon.record.shrink import fitted_state
from clew_daemon.record.store import output_of
from clew_shared.core import suggestions
from clew_shared.core.core import Heard, LookFirst, Report, Verdict, Word, WrongState
from clew_shared.record import events as ev
from clew_shared.record.worlds import UNKNOWN, is_measured
from clew_shared.text.redact import redact, redacted
from clew_shared.views.publish import state_view
from clew_shared.wire import protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from clew_daemon.session.session import Session
    from clew_shared.wire.executor import CheckDone

FINISHES_MAX = 3
"""So many refused finishes in an unchanged world are a failure of the subtask."""

SUGGESTED_S = 60.0
"""How long all checks that an agent suggested may take together."""

CHECK_OUTPUT_CHARS = 4_000
CHECK_TRIES = 2
"""A check changes nothing that counts: where the executor dies, it may be run again."""


UNSTEADY = (
    "The checks changed the workspace, ran a second time, and this one changed it again; what it leaves behind is not "
    "what was checked. Let it write to $TMPDIR, or name the files that it writes in `[loops] ignore`."
)
FEEDBACK_CAME = "Feedback from a person arrived that you may not have considered yet. Consider it, then finish again."


@dataclass(frozen=True, slots=True)
class _Refused:
    """What the goal stood at when a finish was refused: its files, and how many actions there had been."""

    world: str | None = None
    actions: int = -1


@dataclass(frozen=True, slots=True)
class _Ran:
    """How one run of a check ended; `exit_code` is None where it did not run to its end."""

    passed: bool
    output: str
    exit_code: int | None = None


class Methods:
    """The agent's methods, bound to one session."""

    def __init__(self, session: Session) -> None:
        self._s = session
        self._refused_finishes = (_Refused(), 0)
        self._slot: Any = None
        self._remembered = Remembered()
        self._shown_feedback = self._heard_feedback = 0
        self.work = Work()

    async def call(self, name: str, params: Any) -> dict[str, Any]:
        """Carry out a method; raises ProtocolError or WrongState."""
        method: Callable[[Any], Awaitable[dict[str, Any]]] = getattr(self, f"_{name}")
        return await method(params)

    @property
    def llm_open(self) -> bool:
        """An LLM call is under way."""
        return self._slot is not None

    def release(self) -> None:
        """Give the LLM slot back, if the agent still holds it."""
        self.work.llm_since = None
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    # -- words -------------------------------------------------------------------------------------

    async def _hello(self, p: protocol.Hello) -> dict[str, Any]:
        if p.protocol != protocol.PROTOCOL_VERSION:
            raise protocol.ProtocolError(
                f"protocol {p.protocol} is not spoken here; {protocol.PROTOCOL_VERSION} is",
                protocol.INVALID_PARAMS,
            )
        await self._s.ready.wait()
        self._s.greeted(redact(p.agent))
        self.work.greeted = True
        view = self._hello_view()  # made while that is written
        self._shown_feedback = self._s.core.state.feedback_seq
        await self._s.commit()
        return view

    def _hello_view(self) -> dict[str, Any]:
        """Return the answer to `hello`."""
        s = self._s
        said = told(
            s.core.state, s.settings, s.agent, s.book.ledger, s.strategies, self._remembered
        )
        return said | {"epoch": s.epoch, "credential": s.credential}

    async def _heartbeat(self, _: protocol.Heartbeat) -> dict[str, Any]:
        return {}

    async def _leave(self, p: protocol.Leave) -> dict[str, Any]:
        self._s.leave = p.model_copy(update={"reason": redact(p.reason)})
        return {}

    async def _llm_slot(self, p: protocol.LlmSlot) -> dict[str, Any]:
        self.release()
        if p.open:
            if self._s.own_prompt:  # which is built by now, of what the last `hello` told
                self._hear_feedback(self._shown_feedback)
            semaphore = self._s.slots.of(p.base_url)
            self.work.llm_since, self.work.llm_queued = time.time(), semaphore.locked()
            await semaphore.acquire()
            self.work.llm_since, self.work.llm_queued = time.time(), False
            self._slot = semaphore
        return {"open": p.open}

    async def _think(self, p: protocol.Think) -> dict[str, Any]:
        with self._s.entering() as core:
            heard = core.think(redact(p.text), time.time(), has_tool_calls=p.has_tool_calls)
        return await self._heard(heard)

    async def _reflect(self, p: protocol.Reflect) -> dict[str, Any]:
        record = p.model_dump(mode="json", exclude={"usage", "hindsight", "turn", "prompt"})
        costs = [c.get("cost") for c in p.tool_calls]
        tokens = sum(_count(c.get("tokens")) for c in costs if isinstance(c, dict))
        used = p.usage.input + p.usage.output
        with self._s.entering() as core:
            event = ev.Reflected(
                at=time.time(),
                iteration=p.iteration or 0,
                assessment=p.progress_assessment or "",
                record=_short(record | self._said_by_people(record)),
                hindsight=tuple(redacted(p.hindsight)),
                turn=tuple(redacted(p.turn)),
                prompt=p.prompt,
                tokens=used or tokens,
                tokens_in=p.usage.input,
                tokens_out=p.usage.output,
                tokens_cached=p.usage.cached,
                llm_s=p.usage.seconds,
            )
            heard = core.reflect(event)
        return await self._heard(heard)

    def _said_by_people(self, record: dict[str, Any]) -> dict[str, str]:
        """Put into a record what people have said since the last one."""
        untold = self._s.core.state.feedback_untold
        said = [str(record.get("user_feedback") or ""), *untold]
        return {"user_feedback": "\n".join(filter(None, said))} if untold else {}

    # -- actions -----------------------------------------------------------------------------------

    async def _act(self, p: protocol.Act) -> dict[str, Any]:
        await self._s.ready.wait()
        if p.tool == "finish":
            return await self._act_finish(p)
        await self._s.look_past_claims()
        verdict = await self._judge(p)
        if not verdict.allowed:
            return _refused(verdict)
        report = await self._carry_out(verdict.seq, p)
        with self._s.entering() as core:
            if report is None:
                core.interrupt("executor_died", time.time(), counts=True, only=verdict.seq)
                heard = Heard()
            else:
                heard = core.outcome(verdict.seq, report, time.time())
        if report is None:
            await self._s.look()  # else the next action would be taken for what this one did
        await self._s.commit()
        if report and report.result == "error":
            await self._s.hand_over_if_lost()
        outcome: dict[str, Any] = {
            "result": report.result if report else "interrupted",
            "output": (report.output if report else None) or "",
            "duration_s": report.duration_s if report else 0.0,
            "changed": heard.changed,
        }
        if report is None:
            outcome["reason"] = "executor_died"
        elif report.exit_code is not None:
            outcome["exit_code"] = report.exit_code
        return _allowed(verdict, heard) | {"outcome": outcome}

    async def _propose(self, p: protocol.Propose) -> dict[str, Any]:
        await self._s.ready.wait()
        verdict = await self._judge(p)
        return _allowed(verdict, Heard()) if verdict.allowed else _refused(verdict)

    async def _outcome(self, p: protocol.Outcome) -> dict[str, Any]:
        if p.result == "interrupted":
            with self._s.entering() as core:
                core.interrupt("the agent says so", time.time(), counts=False, only=p.seq)
            return await self._heard(Heard())
        report = (
            await self._reported(p) if p.seq in self._s.core.state.in_flight else Report(p.result)
        )
        with self._s.entering() as core:
            heard = core.outcome(p.seq, report, time.time())
        if not heard.known and not self._s.knows_action(p.seq):
            raise WrongState(f"no action {p.seq} of this goal was allowed")
        return await self._heard(heard)

    async def _record(self, p: protocol.Record) -> dict[str, Any]:
        await self._s.ready.wait()
        report = await self._reported(p)
        with self._s.entering() as core:
            verdict = core.record(redact(p.tool), redacted(p.args), report, time.time())
        await self._s.commit()
        answer: dict[str, Any] = {
            "allowed": verdict.allowed,
            "verdict": "allowed" if verdict.allowed else "blocked",
            "seq": verdict.seq,
            "intervention": _word(verdict.intervention),
            "escalated_to": verdict.escalated_to,
        }
        if not verdict.allowed:
            answer |= {"reason": verdict.reason, "message": verdict.message}
        return answer

    async def _judge(self, p: protocol.Act) -> Verdict:
        """Judge a proposal; before a refusal, look whether the workspace is still what it was."""
        tool, args = redact(p.tool), redacted(p.args)
        if self._s.stopping:
            return await self._turn_away(tool, args)
        rationale = redact(p.rationale)
        with self._s.entering() as core:
            verdict = core.propose(tool, args, time.time(), rationale, fresh=False)
        if isinstance(verdict, LookFirst):
            await self._s.look()
            with self._s.entering() as core:
                verdict = core.propose(tool, args, time.time(), rationale)
        await self._s.commit()
        return verdict

    async def _turn_away(self, tool: str, args: dict[str, Any]) -> Verdict:
        """Refuse what a worker that is being stopped still asks for; on record as any other refusal."""
        with self._s.book.entering(self._s.core):
            verdict = self._s.core.turn_away(
                tool, args, time.time(), "The worker is being stopped; nothing more is carried out."
            )
        await self._s.commit()
        return verdict

    async def _carry_out(self, seq: int, p: protocol.Act) -> Report | None:
        """Run an allowed action; None where its effect is unknown."""
        if p.tool == "recall":
            return self._recall(p.args)
        executor = await self._s.hands.standing()
        if not executor and (lost := await self._s.ground_lost()):
            text = f"{lost.detail} Nothing can be done there: a person is asked."
            return Report("error", text, changed=False)
        limits = self._s.settings.limits
        began = time.monotonic()
        try:
            executor = executor or await self._s.hands.executor()
            done = await executor.run(
                seq,
                p.tool,
                p.args,
                timeout_s=limits.action_timeout_s,
                output_bytes=limits.output_bytes,
            )
        except OutOfResources:
            raise  # nothing began, and nothing is the action's fault: the worker waits
        except WorkspaceLostError as error:
            return Report("error", f"Nothing was done: {error}", changed=False)
        except ExecutorDied as error:
            await self._s.hands.died(str(error))
            return None
        world = done.world.name if done.world else ""
        return Report(
            done.result,
            redact(done.output),
            done.changed if world == UNKNOWN else None,
            world,
            done.duration_s or time.monotonic() - began,
            done.exit_code,
        )

    def _recall(self, args: dict[str, Any]) -> Report:
        seq = args.get("seq")
        if not isinstance(seq, int) or isinstance(seq, bool) or not 0 <= seq <= protocol.SEQ_MAX:
            return Report("error", "recall needs `seq`, the number of an earlier action", False)
        found = output_of(self._s.book.ledger, self._s.goal_id, seq)
        if found is None:
            return Report("error", f"no earlier action {seq} with an output", False)
        return Report("success", found, False)

    async def _reported(self, p: protocol.Outcome | protocol.Record) -> Report:
        """Make a report of what an agent says; where it is silent on `changed`, the disk is compared."""
        world = await self._s.hands.digest(anew=False) if p.changed is None else ""
        return Report(
            p.result,
            None if p.output is None else redact(p.output),
            p.changed,
            world,
            p.duration_s or 0.0,
            getattr(p, "exit_code", None),
        )

    # -- the tree ----------------------------------------------------------------------------------

    async def _plan(self, p: protocol.Plan) -> dict[str, Any]:
        tasks = tuple(
            ev.PlannedTask(
                description=redact(t.description),
                subtasks=tuple(
                    ev.PlannedSubtask(description=redact(s.description)) for s in t.subtasks
                ),
            )
            for t in p.tasks
        )
        checks = [  # a command that holds something like a key would be recorded, and run, without it
            (redact(one.name), one.cmd) for one in p.checks or () if redact(one.cmd) == one.cmd
        ]
        with self._s.entering() as core:
            core.plan(tasks, p.replan, time.time(), checks)
        await self._s.commit()
        return fitted_state({"state": state_view(self._s.core.state)})

    async def _complete_subtask(self, p: protocol.CompleteSubtask) -> dict[str, Any]:
        with self._s.entering() as core:
            level = core.complete_subtask(
                time.time(),
                success=p.success,
                failure=redact(p.failure),
                summary=redact(p.summary),
            )
        await self._s.commit()
        return fitted_state({"state": state_view(self._s.core.state), "escalated_to": level})

    async def _advance(self, _: protocol.Advance) -> dict[str, Any]:
        with self._s.entering() as core:
            more = core.advance(time.time())
        await self._s.commit()
        state = self._s.core.state
        return {
            "subtask": subtask_view(state) if more else None,
            "task": task_view(state) if more else None,
        }

    async def _learn(self, p: protocol.Learn) -> dict[str, Any]:
        learned = await self._s.playbook.learn(
            p.deltas, self._s.core.state, self._s.settings.playbook
        )
        return {"playbook": learned}

    # -- the end -----------------------------------------------------------------------------------

    async def _finish(self, p: protocol.Finish) -> dict[str, Any]:
        state = self._s.core.state
        summary = redact(p.summary)
        if state.ended:
            accepted = (state.goal.status == "completed") == p.success
            return {"accepted": accepted, "failing_checks": [], "open_subtasks": []}
        if not p.success:
            with self._s.entering() as core:
                core.finish_failed(summary, time.time())
            await self._s.commit()
            return {"accepted": True, "failing_checks": [], "open_subtasks": state.open_subtasks()}
        if not self._s.own_prompt:
            self._hear_feedback(max(self._shown_feedback, self._s.notified_feedback))
        self._s.core.need_no_replan()
        await self._stand_on_firm_ground()
        failing = await self._run_checks()
        await self._stand_on_firm_ground()
        open_subtasks = state.open_subtasks() if not state.spec.checks else []
        message = self._unheard_feedback()
        if not (failing or message or len(open_subtasks) > 1):
            message = await self._question()
        if not (failing or open_subtasks or message):
            await self._run_suggested()
            await self._stand_on_firm_ground()
            message = self._unheard_feedback()
        if not (failing or open_subtasks or message):
            with self._s.entering() as core:
                core.emit(_completed(state.checked, summary))
            await self._s.commit()
            return {"accepted": True, "failing_checks": [], "open_subtasks": []}
        await self._s.look()  # else the next action would be taken for what a check did
        await self._s.commit()
        refused = bool(failing or (open_subtasks and not message))
        answer = {
            "accepted": False,
            "failing_checks": failing,
            "open_subtasks": state.open_subtasks(),
            "escalated_to": await self._refuse_finish() if refused else None,
        }
        return answer | ({"message": message} if message else {})

    def _hear_feedback(self, seq: int) -> None:
        """Note that the agent has had feedback up to event `seq` before it."""
        self._heard_feedback = max(self._heard_feedback, seq)

    def _unheard_feedback(self) -> str:
        """Say that there is feedback that the agent cannot have considered, "" where there is none.

        An agent whose prompts clew builds considers what stood in the last one; any other what it was sent before it
        called `finish`. The same feedback is said once, so that no agent is refused for ever.
        """
        seq = self._s.core.state.feedback_seq
        if seq <= self._heard_feedback or not self._s.reads_feedback:
            return ""
        self._heard_feedback = seq
        return FEEDBACK_CAME

    async def _question(self) -> str:
        """Question the claim of success once where the goal's last action failed; "" for no question."""
        if not self._s.is_questioned:
            return ""
        with self._s.entering() as core:
            message = core.question_finish(time.time())
        await self._s.commit()
        return message

    async def _stand_on_firm_ground(self) -> None:
        """Hand the goal to a person, and raise WrongState, where its workspace is not what it was."""
        if lost := await self._s.hand_over_if_lost():
            raise WrongState(f"{lost.reason}; the goal waits for a person")

    async def _act_finish(self, p: protocol.Act) -> dict[str, Any]:
        """`finish` as a tool: the answer has the shape of an action's, nothing is run."""
        said = p.args.get("summary")
        answer = await self._finish(
            protocol.Finish(success=True, summary=said if isinstance(said, str) else "")
        )
        lines = [f"check {c['name']} fails: {c['output']}" for c in answer["failing_checks"]]
        lines += [f"still open: {name}" for name in answer["open_subtasks"]]
        lines += [answer["message"]] if "message" in answer else []
        return {
            "verdict": "allowed",
            "seq": self._s.core.state.seq,
            "intervention": None,
            "escalated_to": answer.get("escalated_to"),
            "outcome": {
                "result": "success" if answer["accepted"] else "failure",
                "output": "accepted" if answer["accepted"] else "not accepted\n" + "\n".join(lines),
                "duration_s": 0.0,
                "changed": False,
            },
        }

    async def _run_checks(self) -> list[dict[str, Any]]:
        """Run the goal's checks; returns those that fail, as `finish` answers them (contract, section 7).

        A check may undo what an earlier one has seen. Where they changed the workspace they run once more, and one
        that changes it again fails: what it leaves behind is not what was checked.
        """
        failing, changing = await self._run_each_check()
        if changing and not failing:
            failing, changing = await self._run_each_check()
        if changing and not failing:
            failing = [await self._fail_check(name, _Ran(False, UNSTEADY)) for name in changing]
        return failing

    async def _run_suggested(self) -> None:
        """Run the checks that the agent suggested, each at most once, in a bounded time; none decides anything.

        That one is about to run is durable first: whatever dies of it, it is not run again.
        """
        until = time.monotonic() + SUGGESTED_S
        for name, cmd in suggestions.due(self._s.core.state):
            left_s = until - time.monotonic()
            if left_s < 1.0:
                return
            with self._s.entering() as core:
                core.emit(ev.CheckStarted(at=time.time(), name=name))
            await self._s.commit()
            with self._checking(name):
                ran = await self._suggested(name, cmd, left_s)
            with self._s.entering() as core:
                core.emit(_check_finished(name, ran, suggested=True))
            await self._s.commit()

    async def _suggested(self, name: str, cmd: str, left_s: float) -> _Ran:
        """Run a suggested check once, in at most `left_s` seconds; raises WrongState, WorkspaceLostError."""
        limits = self._s.settings.limits
        timeout_s = min(limits.check_timeout_s, left_s)
        try:
            executor = await self._s.hands.executor()
            done = await executor.check(
                name, cmd, timeout_s=timeout_s, output_bytes=limits.output_bytes
            )
        except WorkspaceLostError:
            await self._stand_on_firm_ground()
            raise
        except ExecutorDied as error:
            await self._s.hands.died(str(error))
            return _Ran(False, redact(f"the check did not run to its end: {error}"))
        return _ran(done, timeout_s)

    async def _run_each_check(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Run each check once; returns those that fail, and the names of those that changed the workspace."""
        failing: list[dict[str, Any]] = []
        changing: list[str] = []
        checks = self._s.core.state.spec.checks
        world = await self._s.hands.digest(anew=False) if checks else ""
        for name, cmd in checks.items():
            with self._checking(name):
                ran = await self._check(name, cmd)
            before, world = world, await self._s.hands.digest(anew=False)
            if is_measured(before) and is_measured(world) and before != world:
                changing.append(name)
            if not ran.passed:
                failing.append(await self._fail_check(name, ran))
                continue
            with self._s.entering() as core:
                core.emit(_check_finished(name, ran))
        await self._s.commit()
        return failing, changing

    async def _fail_check(self, name: str, ran: _Ran) -> dict[str, Any]:
        event = _check_finished(name, ran)
        with self._s.entering() as core:
            core.emit(event)
        await self._s.commit()
        cmd = self._s.core.state.spec.checks[name]
        return {"name": name, "cmd": cmd, "exit_code": ran.exit_code, "output": event.output}

    @contextmanager
    def _checking(self, name: str) -> Iterator[None]:
        """Say while the block lasts that a check is running."""
        self.work.check, self.work.check_since = name, time.time()
        try:
            yield
        finally:
            self.work.check = ""

    async def _check(self, name: str, cmd: str) -> _Ran:
        """Run a check; once more where the executor died of something else, or of it."""
        limits = self._s.settings.limits
        said = ""
        for _ in range(CHECK_TRIES):
            try:
                executor = await self._s.hands.executor()
                done = await executor.check(
                    name, cmd, timeout_s=limits.check_timeout_s, output_bytes=limits.output_bytes
                )
            except OutOfResources:
                raise
            except ExecutorDied as error:
                await self._s.hands.died(str(error))
                said = redact(f"the check did not run to its end: {error}")
                continue
            return _ran(done, limits.check_timeout_s)
        return _Ran(False, said)

    async def _refuse_finish(self) -> Any:
        """Count refused finishes between which the agent changed nothing: asking again is no way forward."""
        state = self._s.core.state
        seen, count = self._refused_finishes
        same = seen.world == state.world and not state.world.startswith(UNKNOWN)
        same = same or (seen.actions == state.actions_total and not self._s.own_tools)
        count = count + 1 if same else 1
        self._refused_finishes = (_Refused(state.world, state.actions_total), count)
        if count < FINISHES_MAX:
            return None
        self._refused_finishes = (_Refused(), 0)
        with self._s.entering() as core:
            level = core.fail(
                f"finish was asked for {count} times and refused, with nothing changed", time.time()
            )
        await self._s.commit()
        return level

    async def _heard(self, heard: Heard) -> dict[str, Any]:
        await self._s.commit()
        return {
            "intervention": _word(heard.intervention),
            "escalated_to": heard.escalated_to,
        }


def _allowed(verdict: Verdict, heard: Heard) -> dict[str, Any]:
    return {
        "verdict": "allowed",
        "seq": verdict.seq,
        "intervention": _word(heard.intervention or verdict.intervention),
        "escalated_to": heard.escalated_to,
    }


def _refused(verdict: Verdict) -> dict[str, Any]:
    return {
        "verdict": "blocked",
        "seq": verdict.seq,
        "reason": verdict.reason,
        "message": verdict.message,
        "intervention": _word(verdict.intervention),
        "escalated_to": verdict.escalated_to,
    }


def _word(word: Word | None) -> dict[str, str] | None:
    return asdict(word) if word else None


def _count(value: Any) -> int:
    """Read a count of tokens; what is none is 0, as in the records that people read."""
    told = isinstance(value, int | float) and 0 <= value <= ev.COUNT_MAX
    return int(value) if told else 0


def _short(record: dict[str, Any]) -> dict[str, Any]:
    """Bound a record: texts redacted, then raw outputs cut to 1,000 characters; half a key is still one."""
    cleaned: dict[str, Any] = redacted(record)
    for call in cleaned.get("tool_calls", []):
        raw = call.get("raw_output", call.get("result"))
        if isinstance(raw, str):
            call["raw_output" if "raw_output" in call else "result"] = raw[:1000]
    return cleaned


def _completed(verified: bool, summary: str) -> ev.GoalEnded:
    return ev.GoalEnded(at=time.time(), status="completed", summary=summary, verified=verified)


def _ran(done: CheckDone, timeout_s: float) -> _Ran:
    """Return how a check ended, with what it printed, redacted, and that it was ended where it took too long."""
    late = f"\n(not finished within {timeout_s:.0f} s)" if done.result == "timeout" else ""
    return _Ran(done.result == "success", redact(done.output) + late, done.exit_code)


def _check_finished(name: str, ran: _Ran, *, suggested: bool = False) -> ev.CheckFinished:
    text = _cut(ran.output, CHECK_OUTPUT_CHARS)
    return ev.CheckFinished(
        at=time.time(), name=name, passed=ran.passed, output=text, suggested=suggested
    )


def _cut(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    return (
        f"{text[: chars // 2]}\n… {len(text) - chars} characters left out …\n{text[-chars // 2 :]}"
    )
