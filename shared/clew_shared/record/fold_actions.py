"""The fold's part for what the agent does and thinks: actions, worlds, progress, and the streaks of thoughts.

Pure, like all of the fold: what was decided stands in the events, here is only what follows from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record.forgetting import count, let_go
from clew_shared.record.model import ACTIONS_KEPT, Action, Result, Subtask
from clew_shared.record.moment import iso
from clew_shared.record.progress import WRITE_ONLY_TOOLS, is_wait
from clew_shared.record.signature import digest
from clew_shared.record.state import (
    CALLS_KEPT,
    EVERYWHERE,
    INSIGHTS_KEPT,
    STEPS_KEPT,
    THOUGHTS_KEPT,
    Change,
    InFlight,
    LlmCall,
    Raised,
    Scope,
    State,
    Step,
    Streak,
    Tally,
)
from clew_shared.record.worlds import CLAIMED, UNKNOWN, is_measured

if TYPE_CHECKING:
    from clew_shared.record import events as ev

ALIKE = "alike"
"""The key of the intervention about thoughts that say the same, whatever their theme."""


# -- actions -------------------------------------------------------------------------------------------


def _action(state: State, e: ev.ActionAllowed | ev.ActionBlocked, seq: int, result: str) -> Action:
    return Action(
        name=e.tool,
        args=e.args,
        result=result,
        seq=seq,
        timestamp=iso(e.at),
        task_idx=state.current_task_idx,
        subtask_idx=state.current_subtask_idx,
        epoch=e.epoch,
    )


def _keep(state: State, action: Action) -> None:
    """Put a finished action under its subtask."""
    tasks = state.goal.tasks
    if not 0 <= action.task_idx < len(tasks):
        return
    subtasks = tasks[action.task_idx].subtasks
    if not 0 <= action.subtask_idx < len(subtasks):
        return
    subtask = subtasks[action.subtask_idx]
    subtask.actions.append(action)
    subtask.actions_total += 1
    del subtask.actions[:-ACTIONS_KEPT]


def action_allowed(state: State, e: ev.ActionAllowed, seq: int) -> None:
    state.in_flight[seq] = InFlight(seq, e.signature, _action(state, e, seq, ""))
    state.proposed = True
    state.actions_total += 1
    state.attention.thoughts_without_tools = 0
    if e.signature not in state.scope.loop_counts:
        state.attention.theme = Streak()  # what leads to something not tried before is work
    count(state.scope.loop_counts, e.signature)
    let_go(state)


def action_blocked(state: State, e: ev.ActionBlocked, seq: int) -> None:
    state.proposed = True
    state.blocked_total += 1
    state.attention.thoughts_without_tools = 0
    if e.makes_block:
        count(state.scope.loop_counts, e.signature)
        where = EVERYWHERE if e.everywhere else state.world
        state.scope.blocks.setdefault(e.signature, {})[where] = e.makes_block
    if e.counts:
        state.blocked_proposals += 1
    let_go(state)
    if e.done:
        action = _action(state, e, seq, "")
        state.in_flight[seq] = InFlight(seq, e.signature, action)
        return
    _keep(state, _action(state, e, seq, Result.BLOCKED))
    state.attention.steps += 1
    state.attention.stale += 1


def action_interrupted(state: State, e: ev.ActionInterrupted, _seq: int) -> None:
    flight = state.in_flight.pop(e.of, None)
    if flight is None:
        return
    flight.action.result = Result.INTERRUPTED
    _keep(state, flight.action)
    if e.counts:
        count(state.scope.crashes, flight.signature)


def action_finished(state: State, e: ev.ActionFinished, _seq: int) -> None:
    flight = state.in_flight.pop(e.of, None)
    if flight is None:
        return
    action = flight.action
    action.result, action.duration_s, action.exit_code = e.result, e.duration_s, e.exit_code
    before = world_before(state, e.world)
    action.changed = world_moved(state, e.world) if e.changed is None else e.changed
    state.world = world_after(state, flight.signature, e)
    _keep(state, action)
    if is_measured(e.world):
        state.measured = e.world
    elif _may_have_changed(e):
        state.measured = ""
        _remember_change(state, flight.signature, e)
    state.scope.waited = is_wait(action.name, action.args)
    if not state.scope.waited:
        _learn(state, action, flight.signature, e, before)
    if e.soft or state.scope.waited:
        _forget_said(state)  # who waits for something may well think the same again


def world_before(state: State, measured: str) -> str:
    """Name the world that a step began in, to compare with the digest `measured` after it.

    Where nothing had measured that world, the first digest after it names it, and does not say that it has changed.
    """
    unmeasured = not is_measured(state.world) and bool(state.world)
    names_it = is_measured(measured) and state.measured in ("", measured)
    return measured if unmeasured and names_it else state.world


def world_moved(state: State, measured: str) -> bool | None:
    """Return whether a measurement after a step shows another world than before it, None where one is unknown."""
    if not is_measured(measured) or state.world.startswith(UNKNOWN):
        return None
    return measured != world_before(state, measured)


def world_after(state: State, signature: str, e: ev.ActionFinished) -> str:
    """Name the world that an outcome leads to.

    A measured digest names itself. A change that nothing measured leads to a new world, but for a signature seen
    before with the same outcome and no new changing signature since: that leads to the world that it led to then
    (docs/loops.md). A success that may have changed a workspace too large to measure always leads to a new one.
    """
    if is_measured(e.world):
        return e.world
    if not _may_have_changed(e):
        return state.world
    known = state.changes.get(signature, {}).get(e.outcome)
    if known and known.novelty == state.novelty and not _counts_as_work(e):
        return known.world
    kind = UNKNOWN if e.world else CLAIMED
    return kind + digest(f"{state.world}\n{signature}\n{e.outcome}\n{state.novelty}")


def _may_have_changed(e: ev.ActionFinished) -> bool:
    return bool(e.changed) or (e.changed is None and e.world == UNKNOWN)


def _counts_as_work(e: ev.ActionFinished) -> bool:
    return e.changed is None and e.world == UNKNOWN and e.result == Result.SUCCESS


def _remember_change(state: State, signature: str, e: ev.ActionFinished) -> None:
    if signature not in state.changes or _counts_as_work(e):
        state.novelty += 1
    outcomes = state.changes[signature] = state.changes.pop(signature, {})
    outcomes.pop(e.outcome, None)
    outcomes[e.outcome] = Change(state.world, state.novelty)


def makes_progress(scope: Scope, before: str, after: str, told: str) -> bool:
    """Tell whether a step reaches a world not seen in this scope, or, without writing, a new outcome there."""
    if after != before:
        return after not in scope.worlds
    return bool(told) and told not in scope.outcomes


def told_by(tool: str, signature: str, world: str, e: ev.ActionFinished) -> str:
    """Name what a step has told: an outcome of its tool in a world.

    Where nothing was reported it says nothing of the tool, so that only the very same action can say it again.
    A tool that only writes tells nothing ("") that the world does not say.
    """
    if tool in WRITE_ONLY_TOOLS and not e.plain:
        return ""
    return f"{signature if e.plain else tool}\n{world}\n{e.outcome}"


def _learn(state: State, action: Action, signature: str, e: ev.ActionFinished, before: str) -> None:
    scope, after = state.scope, state.world
    claimed = bool(e.changed) and not is_measured(e.world)
    moved = after != before or claimed
    changed = claimed if e.world == UNKNOWN else moved
    told = told_by(action.name, signature, after, e)
    progress = makes_progress(scope, before, after, told)
    writer = action.name in WRITE_ONLY_TOOLS or signature in scope.writers
    if changed:
        count(scope.writers, signature)
    count(scope.worlds, after)
    if told:
        count(scope.outcomes, told)
    idle = (writer or changed) and not progress
    scope.steps.append(Step(signature, progress, idle, e.plain))
    del scope.steps[:-STEPS_KEPT]
    _tally(scope, signature, after, action, e, reading=not changed)
    _errors(scope, action.name, signature, e)
    attention = state.attention
    attention.steps += 1
    attention.stale = 0 if progress else attention.stale + 1
    if progress:
        attention.fresh = True
        _forget_thoughts(state)
    _relieve(state)
    if progress and moved and e.result == Result.SUCCESS:
        _heed(state, "same_error")


def _tally(
    scope: Scope, signature: str, world: str, action: Action, e: ev.ActionFinished, *, reading: bool
) -> None:
    tally = scope.tallies.setdefault(signature, {}).setdefault(world, Tally())
    count(tally.counts, e.outcome)
    tally.steady = tally.outcome in ("", e.outcome)
    tally.outcome, tally.result, tally.head = e.outcome, e.result, e.head
    tally.seq, tally.soft = action.seq, e.soft
    tally.reading = tally.reading and reading and e.result == Result.SUCCESS
    tally.plain = tally.plain and e.plain


def _errors(scope: Scope, tool: str, signature: str, e: ev.ActionFinished) -> None:
    what = "" if e.soft else e.error_class
    _streak(scope.tool_errors, tool, what)
    _streak(scope.action_errors, signature, what)
    if what and e.result == Result.ERROR:
        count(scope.misuses, f"{tool}:{what}")


def _streak(streaks: dict[str, Streak], key: str, what: str) -> None:
    if not what:
        streaks.pop(key, None)
        return
    streak = streaks[key] = streaks.pop(key, Streak())
    streak.count = streak.count + 1 if streak.what == what else 1
    streak.what = what


def world_seen(state: State, e: ev.WorldSeen, seq: int) -> None:
    world, measured = e.world, e.world
    if world == UNKNOWN:
        world, measured = UNKNOWN + digest(f"{state.world}\n{seq}"), ""
        state.novelty += 1
    replaces = e.instead or state.world.startswith(UNKNOWN)
    if replaces or world_before(state, world) != world:
        state.scope.worlds.setdefault(world, 1)
        state.world = world
    state.measured = measured


# -- thoughts and streaks --------------------------------------------------------------------------------


def loop_detected(state: State, e: ev.LoopDetected, _seq: int) -> None:
    del e
    state.loops_total += 1


def intervened(state: State, e: ev.Intervened, _seq: int) -> None:
    attention = state.attention
    if e.again:
        state.ignored_interventions += 1
    if e.key:
        streak = streak_of(state, e.intervention, e.key)
        attention.raised[e.intervention] = Raised(e.key, attention.steps, streak)


def _relieve(state: State) -> None:
    """Forget interventions whose streak was broken: they were heeded."""
    raised = state.attention.raised
    for kind in [k for k, r in raised.items() if streak_of(state, k, r.key) < r.streak]:
        del raised[kind]


def _heed(state: State, intervention: str) -> None:
    """Let an intervention wait anew: the agent went on to a world that it had not seen."""
    if raised := state.attention.raised.get(intervention):
        streak = streak_of(state, intervention, raised.key)
        state.attention.raised[intervention] = Raised(
            raised.key, state.attention.steps, streak, heeded=True
        )


def streak_of(state: State, intervention: str, key: str) -> int:
    """Give the present length of the streak that an intervention was raised from."""
    attention = state.attention
    match intervention:
        case "no_progress":
            return max(attention.stale, attention.iterations_without_facts)
        case "repeated_planning":
            return attention.thoughts_without_tools
        case "theme":
            return attention.alike if key == ALIKE else attention.theme.count
        case "stuck":
            return attention.stuck
        case "same_error":
            return _error_streak(state.scope, *key.split(":", 1))
        case _:
            return 0


def _error_streak(scope: Scope, side: str, name: str) -> int:
    if side == "misuse":
        return scope.misuses.get(name, 0)
    streaks = scope.tool_errors if side == "tool" else scope.action_errors
    return streaks[name].count if name in streaks else 0


def thought(state: State, e: ev.Thought, _seq: int) -> None:
    attention = state.attention
    attention.steps += 1
    again = e.theme == attention.theme.what
    attention.theme = Streak(e.theme, attention.theme.count + 1 if again else 1)
    attention.alike = attention.alike + 1 if e.echoes else 1
    attention.said.append(e.text)
    del attention.said[:-THOUGHTS_KEPT]
    attention.thoughts_without_tools = (
        0 if e.has_tool_calls else attention.thoughts_without_tools + 1
    )
    _relieve(state)


def _forget_thoughts(state: State) -> None:
    """Begin the streaks of thoughts anew: something came of them."""
    state.attention.theme = Streak()
    _forget_said(state)


def _forget_said(state: State) -> None:
    state.attention.alike = 0
    state.attention.said.clear()


def reflected(state: State, e: ev.Reflected, _seq: int) -> None:
    attention = state.attention
    state.iteration = max(state.iteration + 1, e.iteration)
    attention.stuck = attention.stuck + 1 if e.assessment in ("stuck", "regressing") else 0
    if attention.fresh or e.assessment in ("stuck", "regressing"):
        attention.claims = 0
    elif e.assessment == "advancing":
        attention.claims += 1
    attention.iterations_without_facts = (
        0 if attention.fresh else attention.iterations_without_facts + 1
    )
    attention.fresh = False
    _relieve(state)
    _learn_from(state, e)
    _charge(state, e)
    state.turn_before = state.turn_at
    state.turn_at = (state.current_task_idx, state.current_subtask_idx)
    state.feedback_untold.clear()


def _learn_from(state: State, e: ev.Reflected) -> None:
    """Keep what the agent found most relevant in the last turn's results, at the subtask that they are of."""
    subtask = _at(state, state.turn_at)
    if subtask is None or state.turn_before != state.turn_at:
        return
    found = [h["insights"] for h in e.hindsight if h.get("relevance") == "high"]
    subtask.insights += [insight for insight in found if insight]
    del subtask.insights[:-INSIGHTS_KEPT]


def _at(state: State, place: tuple[int, int]) -> Subtask | None:
    """Give the subtask at a place; after a replan a turn's place is nowhere."""
    t, s = place
    tasks = state.goal.tasks
    there = 0 <= t < len(tasks) and 0 <= s < len(tasks[t].subtasks)
    return tasks[t].subtasks[s] if there else None


def _charge(state: State, e: ev.Reflected) -> None:
    """Count what the turn's LLM call has cost: for the goal, and for the subtask that it was made for.

    A turn that tells of no tokens, seconds or prompt (a runbook's) had no call.
    """
    subtask = _at(state, state.turn_at)
    called = bool(e.tokens or e.llm_s or e.prompt)
    for cost in (state.cost, *([subtask.cost] if subtask else [])):
        cost.calls += called
        cost.tokens += e.tokens
        cost.tokens_in += e.tokens_in
        cost.tokens_out += e.tokens_out
        cost.tokens_cached += e.tokens_cached
        cost.llm_s += e.llm_s
    if e.prompt is None:
        return
    said = e.prompt
    state.prompt = said
    state.calls.append(
        LlmCall(
            iteration=state.iteration,
            tokens_in=e.tokens_in,
            tokens_out=e.tokens_out,
            tokens_cached=e.tokens_cached,
            llm_s=e.llm_s,
            chars=said.chars,
            kept=said.kept,
            sha=said.sha,
            cuts=said.cuts,
            window=said.window,
        )
    )
    del state.calls[:-CALLS_KEPT]
