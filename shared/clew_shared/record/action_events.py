"""Actions: that one was allowed or refused, what came of it, and the world that it led to."""

from datetime import datetime
from functools import partial
from typing import Any

from clew_shared.judge import memory
from clew_shared.judge.reading import Reading, pause
from clew_shared.record.life_events import GoalEvent
from clew_shared.record.model import ACTIONS_KEPT, Action, Result
from clew_shared.record.moment import iso
from clew_shared.record.scope import (
    CLAIMED,
    EVERYWHERE,
    STEPS_KEPT,
    UNKNOWN,
    CycleStep,
    Finding,
    Loops,
    Scope,
    Tally,
    count,
    is_measured,
    kept,
)
from clew_shared.record.signature import digest
from clew_shared.record.state import RERUNS_KEPT, RUNS_KEPT, InFlight, Rerun, State
from clew_shared.record.touched import Touched
from clew_shared.text.words import action_text
from clew_shared.tools import WRITE_ONLY_TOOLS

DAEMON_DIED = "daemon_died"  # why an action ended at an unknown time
# What a refused proposal, or a look at the record, costs in shares of `patience`: as much as a thought.
IDLE_SHARE = 1 / 3


class ActionAllowed(GoalEvent, frozen=True):
    """The gate allowed a proposal: it may run, once; `run` counts those of the same step (`core.journal`)."""

    epoch: int
    tool: str
    args: dict[str, Any]
    signature: str
    rationale: str = ""
    attempt: int = 1
    run: int = 1

    def into(self, state: State) -> None:
        if self.run > 1:
            self._note_rerun(state)
        action = action_of(self, state.seq, state.place)
        state.in_flight[state.seq] = InFlight(state.seq, self.signature, action)
        state.plan.proposed = True
        state.actions_total += 1
        loops = state.loops
        loops.attention.thoughts_without_tools = 0
        if self.signature not in loops.scope.loop_counts:
            loops.attention.same_theme = 0  # what leads to something not tried before is work
        count(loops.scope.loop_counts, self.signature)

    def _note_rerun(self, state: State) -> None:
        ran = state.subtask.actions if state.subtask else []
        same = [a for a in ran if (a.name, a.args) == (self.tool, self.args)]
        before = next((a for a in reversed(same) if a.result != Result.BLOCKED), None)
        reruns = state.attempts.reruns
        known = next((r for r in reruns if before and r.seqs[-1] == before.seq), None)
        if known is None:
            first = [before.seq if before else 0]
            known = Rerun(*state.place, action_text(self.tool, self.args), 1, first, [])
            reruns.append(known)
            del reruns[:-RERUNS_KEPT]
        known.times = self.run
        known.seqs.append(state.seq)
        known.results.append(str(before.result) if before else "")
        del known.seqs[:-RUNS_KEPT], known.results[: -RUNS_KEPT + 1]


class ActionBlocked(GoalEvent, frozen=True):
    """The gate refused a proposal."""

    epoch: int
    tool: str
    args: dict[str, Any]
    signature: str
    reason: str
    message: str
    makes_block: str = ""  # it is added to the blocked actions of its world, for this reason
    everywhere: bool = False  # … of every world
    counts: bool = False  # it counts for `blocked_limit`
    done: bool = False  # the agent reported what it had already done (`record`)
    attempt: int = 1

    def into(self, state: State) -> None:
        loops, seq = state.loops, state.seq
        state.plan.proposed = True
        loops.blocked_total += 1
        loops.attention.thoughts_without_tools = 0
        loops.blocked_proposals += self.counts
        if self.makes_block:
            count(loops.scope.loop_counts, self.signature)
            where = EVERYWHERE if self.everywhere else loops.world
            loops.scope.blocks.setdefault(self.signature, {})[where] = self.makes_block
            loops.note(Finding(seq, refused=True))
        if self.done:
            action = action_of(self, seq, state.place)
            state.in_flight[seq] = InFlight(seq, self.signature, action)
            return
        if self.reason != "stopped":  # then the daemon stops, the agent is not idle
            loops.attention.steps += 1
            loops.attention.firm = True
            label = action_text(self.tool, self.args)
            memory.take_idle(loops.scope.memory, seq, label, IDLE_SHARE)
        _store(state, action_of(self, seq, state.place, Result.BLOCKED))


class ActionInterrupted(GoalEvent, frozen=True):
    """An action was in flight when a process died: its effect is unknown; what it had printed last is stored, too."""

    of: int
    reason: str
    counts: bool = False  # for the crash rule
    detail: str = ""  # how the process died, where that is known

    def into(self, state: State) -> None:
        if (flight := state.in_flight.pop(self.of, None)) is None:
            return
        self.end(flight.action)
        _store(state, flight.action)
        if self.counts:
            count(state.loops.scope.crashes, flight.signature)
            state.loops.scope.died = {flight.signature: self.detail}

    def end(self, action: Action) -> None:
        ran_s = self.at - datetime.fromisoformat(action.timestamp).timestamp()
        action.result = Result.INTERRUPTED
        action.duration_s = 0.0 if self.reason == DAEMON_DIED else max(0.0, round(ran_s, 3))


class ActionFinished(GoalEvent, frozen=True):
    """The outcome of action number `of`; the full output is stored with the event."""

    of: int
    result: str
    head: str = ""  # both ends of the output
    outcome: str
    error_class: str = ""  # the error without what varies from call to call
    fault: str = ""  # a hash of it, without what the action named
    duration_s: float = 0.0
    exit_code: int | None = None
    changed: bool | None = None
    world: str = ""  # the digest after it, UNKNOWN if it could not be measured whole, "" for none
    plain: bool = False
    soft: bool = False
    idle: bool = False  # it looked at nothing but the record, or let time pass
    touched: Touched = Touched()
    evidence: Reading = Reading()

    def into(self, state: State) -> None:
        if (flight := state.in_flight.pop(self.of, None)) is None:
            return
        loops, name = state.loops, flight.signature
        self.end(flight.action)
        if self.changed is None:
            flight.action.changed = loops.moved_to(self.world)
        before, loops.world = loops.began_in(self.world), self.world_after(loops, name)
        _store(state, flight.action)
        if is_measured(self.world):
            loops.measured = self.world
        elif self._may_have_changed():
            loops.measured = ""
            loops.novelty = self._novelty_after(loops, name)
            count(loops.changes, name)
        self._teach(loops, flight, before)
        loops.attention.drop_broken()

    def end(self, action: Action) -> None:
        action.result, action.exit_code = self.result, self.exit_code
        action.duration_s, action.changed = self.duration_s, self.changed
        if self.touched.own:
            action.paths, action.judges = self.touched.paths, self.touched.judges

    def world_after(self, loops: Loops, signature: str) -> str:
        """Return the name of the world that this outcome leads to (docs/loops.md, Terms).

        A measured digest names itself. A change that was not measured leads to a new world; but to the one of before,
        if the signature had the same outcome then and no new one has changed anything since.
        """
        if is_measured(self.world):
            return self.world
        if not self._may_have_changed():
            return loops.world
        kind, novelty = UNKNOWN if self.world else CLAIMED, self._novelty_after(loops, signature)
        return kind + digest(f"{signature}\n{self.outcome}\n{novelty}")

    def _novelty_after(self, loops: Loops, signature: str) -> int:
        """Return how many signatures have changed something by then; each success in a large workspace counts."""
        too_large = self.changed is None and self.world == UNKNOWN and self.result == Result.SUCCESS
        return loops.novelty + (signature not in loops.changes or too_large)

    def _may_have_changed(self) -> bool:
        return bool(self.changed) or (self.changed is None and self.world == UNKNOWN)

    def makes_progress(
        self, scope: Scope, signature: str, tool: str, before: str, after: str
    ) -> bool:
        """Return whether the step reaches a world new to its scope, or without changing it, has an outcome new in it.

        An answer of a tool that only writes, or of what changed something before and is not reported, says nothing.
        """
        if after != before:
            return after not in scope.worlds
        if tool in WRITE_ONLY_TOOLS or (self.plain and signature in scope.writers):
            return False
        worlds = scope.tallies.get(signature, {})
        known = worlds.values() if self.plain else [worlds[after]] if after in worlds else ()
        return not any(self.outcome in tally.counts for tally in known)

    def varies(self, tally: Tally | None) -> bool:
        """Return whether the answer may be another one the next time by itself: it goes on, or was different before."""
        if self.evidence.kind == "going_on" or (tally and tally.kind == "varies"):
            return True
        if tally is None or not tally.outcome or self.result != Result.SUCCESS:
            return False
        answers = not self.outcome.endswith(":")
        return tally.outcome != self.outcome or (answers and tally.raw != self.evidence.raw)

    def _teach(self, loops: Loops, flight: InFlight, before: str) -> None:
        """Teach what came of an action that began in the world `before`: worlds, tallies, steps, what it brought."""
        scope, attention = loops.scope, loops.attention
        action, name = flight.action, flight.signature
        attention.steps += 1
        paused = pause(action.name, action.args)
        label = partial(action_text, action.name, action.args)
        if paused == "only":
            attention.waits = True
            memory.take_wait(scope.memory, action.seq, label)
            return
        after = loops.world
        claimed = bool(self.changed) and not is_measured(self.world)
        moved = after != before or claimed
        changed = claimed if self.world == UNKNOWN else moved
        progress = not self.idle and self.makes_progress(scope, name, action.name, before, after)
        writes = changed or action.name in WRITE_ONLY_TOOLS or name in scope.writers
        if changed:
            count(scope.writers, name)
        count(scope.worlds, after)
        polls = scope.memory.waited or paused == "first"
        tally = self._counted(loops, flight, reading=not changed, polls=polls)
        varies = tally.kind == "varies"
        moves = progress or varies or self.soft
        step = CycleStep(name, moves, writes and not progress, self.plain, action.seq)
        scope.steps = [*scope.steps[1 - STEPS_KEPT :], step]
        fault = f"{action.name} {self.fault}" if self.fault and not self.soft else ""
        again = attention.same_error if fault == attention.fault else 0
        is_other = [one.signature for one in scope.steps[-2:-1]] != [name]
        attention.fault, attention.same_error = fault, again + is_other if fault else 0
        attention.acted = attention.acted or not self.idle
        if self.idle:
            attention.firm = True
            memory.take_idle(scope.memory, action.seq, label(), IDLE_SHARE)
            return
        may_change = bool(self.evidence.kind) or varies or polls
        attention.waits = attention.waits or may_change
        attention.firm = attention.firm or not may_change
        attention.moved = attention.moved or moved
        world = after if self.world else ""
        outcome = memory.Outcome(
            action.seq, label, self.result, self.head, moved, world, varies, polls, self.evidence
        )
        if memory.take(scope.memory, outcome) > memory.NEWS or (progress and moved):
            attention.fresh = True
            attention.same_theme = 0

    def _counted(self, loops: Loops, flight: InFlight, *, reading: bool, polls: bool) -> Tally:
        worlds = kept(loops.scope.tallies, flight.signature, {})
        tally = kept(worlds, loops.world, Tally())
        first, success = not tally.outcome, self.result == Result.SUCCESS
        tally.steady = first or tally.outcome == self.outcome
        if self.varies(tally) or ((success or self.soft) and polls):
            tally.kind = "varies"
        elif self.soft or polls:  # one that waits before it tries again may well be right to
            tally.kind = "temporary"
        elif first or tally.kind == "temporary":
            tally.kind = "read" if reading and success else ""
        count(tally.counts, self.outcome)
        tally.outcome, tally.result, tally.head = self.outcome, self.result, self.head
        tally.seq, tally.raw = flight.action.seq, self.evidence.raw
        tally.plain = tally.plain and self.plain
        return tally


class WorldSeen(GoalEvent, frozen=True):
    """The workspace differs from what the last action left, or could not be measured whole (UNKNOWN)."""

    world: str
    instead: bool = False  # it replaces a world that was only claimed

    def into(self, state: State) -> None:
        loops, world, measured = state.loops, self.world, self.world
        if world == UNKNOWN:
            world, measured = UNKNOWN + digest(f"{loops.world}\n{state.seq}"), ""
            loops.novelty += 1
        replaces = self.instead or loops.world.startswith(UNKNOWN)
        if replaces or loops.began_in(world) != world:
            loops.scope.worlds.setdefault(world, 1)
            loops.world = world
        loops.measured = measured


def action_of(
    e: ActionAllowed | ActionBlocked, seq: int, place: tuple[int, int], result: str = ""
) -> Action:
    """Return the action that begins with event number `seq`, in the subtask at `place`."""
    run = e.run if isinstance(e, ActionAllowed) else 1
    action = Action(e.tool, e.args, result, seq, iso(e.at), epoch=e.epoch, attempt=e.attempt)
    action.task_idx, action.subtask_idx, action.run = *place, run
    return action


def _store(state: State, action: Action) -> None:
    state.proofs.last_action = max(state.proofs.last_action, action.seq)
    if subtask := state.subtask_at(action.task_idx, action.subtask_idx):
        subtask.actions.append(action)
        subtask.actions_total += 1
        del subtask.actions[:-ACTIONS_KEPT]
