"""The state block: the end of a prompt, with the state of the work and what is asked of the model now.

All that changes from turn to turn is here, so that what precedes it can be cached. Pure text of a view.
"""

from collections.abc import Iterable, Iterator
from math import ceil

from clew_shared.guidance.requests import request
from clew_shared.prompt.messages import HEAD_CHARS, share_chars
from clew_shared.prompt.view import COMPLETE_SUBTASK, PLAN, PromptView, listing
from clew_shared.prompt.windows import Window, progress_marker
from clew_shared.text.shorten import one_line, without_middle
from clew_shared.wire.hello import Call, HelloState, Said

FEEDBACK_SHOWN = 5
FEEDBACK_CHARS = 1_000
FEEDBACK_EARLIER_CHARS = 300
BLOCKED_SHOWN = 10
WARNINGS_SHOWN = 2
PROBES_SHOWN = 30
PLAN_SHARE = 0.05
DESCRIPTION_CHARS = 160
UNTRIED_SHOWN = 20
LATER_SHOWN = 3


def state_block(view: PromptView) -> str:
    """Return the last part of a prompt."""
    state = view.state
    lines = [*_standing(view), *_limits(view)]
    own = tuple(tool for tool in view.tools if tool.name in (PLAN.name, COMPLETE_SUBTASK.name))
    if own and view.mode == "json":  # they come and go: the system prompt does not list them
        lines.append("Also there now:\n" + listing(own))
    if state.replan_required:
        lines.append(_replan(state))
    elif not state.subtask.open:
        lines.append("Every subtask is over. Fix what is missing, then call finish.")
    else:
        lines.append(request(view, guided=view.hello.options.context.guidance))
    return "\n".join(lines)


def _standing(view: PromptView) -> Iterator[str]:
    state, hello = view.state, view.hello
    subtask = state.subtask
    if subtask.attempts and subtask.open:
        # where there may be several attempts, their number is another one, and has its own block
        number = "" if hello.attempt.limit > 1 else f"This is attempt {subtask.attempts + 1}. "
        failure = without_middle(subtask.last_failure or "", 400)
        if text := number + (f"It failed with: {failure}" if failure else ""):
            yield text.strip()
    following = state.next_pending
    if following and f"- {following}" not in plan_text(view, plan_lines(view)).splitlines():
        yield f"After this subtask: {without_middle(following, 200)}"
    guided = hello.options.context.guidance
    if view.there and guided and subtask.open and not state.replan_required:
        yield f"These are there: {', '.join(view.there)}"
    yield from _probes(state)
    if state.blocked_actions:
        names = [without_middle(name, 120) for name in state.blocked_actions[-BLOCKED_SHOWN:]]
        yield f"Refused from now on: {'; '.join(names)}"
    folded = [e for e in state.transcript[: view.folded] if isinstance(e, Said) and e.warns]
    yield from (entry.text[: 2 * HEAD_CHARS] for entry in folded[-WARNINGS_SHOWN:])
    if view.window is Window.MODERATE:  # then thoughts are not in the transcript
        said = (e for e in state.transcript if isinstance(e, Said) and e.role == "assistant")
        thoughts = [entry.text for entry in said][-view.windows.moderate_thoughts :]
        yield from (f"You thought: {without_middle(text, 300)}" for text in thoughts)
    if state.idea and view.window < Window.AGGRESSIVE:
        yield f"You wanted to do next: {without_middle(state.idea, 200)}"
    *earlier, last = hello.feedback[-FEEDBACK_SHOWN:] or ("",)
    yield from (f"A person says: {without_middle(t, FEEDBACK_EARLIER_CHARS)}" for t in earlier)
    if last:
        yield f"A person says: {without_middle(last, FEEDBACK_CHARS)}"


def _probes(state: HelloState) -> list[str]:
    """Return what probes and checks have found, by the action after which that was so.

    None is current that a later call of the transcript may have changed.
    """
    calls = (e for e in state.transcript if isinstance(e, Call) and e.result != "blocked")
    last = max((call.seq for call in calls if call.changed is not False), default=0)
    found: dict[str, list[str]] = {}
    for name, probe in sorted(state.probes.items())[:PROBES_SHOWN]:
        after = f"after #{probe.after}" if probe.after else "at the start"
        current = probe.current and probe.after >= last
        since = "nothing changed since" if current else "changed since"
        mark = f"{without_middle(name, 60)} {'✓' if probe.passed else '✗'}"
        found.setdefault(f"Checked {after}, {since}", []).append(mark)
    return [f"{when}: {', '.join(marks)}" for when, marks in found.items()]


def plan_lines(view: PromptView) -> list[str]:
    """Return a line for each open subtask of the current task, and for the tasks after it."""
    state = view.state
    now = state.subtask
    lines = [
        f"- {subtask.description}" + (" (now)" if subtask is now else "")
        for subtask in state.task.subtasks
        if subtask is now or subtask.open
    ]
    following = state.goal.tasks[state.current_task_idx + 1 :]
    later = [t.description for t in following if t.status in ("pending", "in_progress", "blocked")]
    lines += [f"- later: {name}" for name in later[:LATER_SHOWN]]
    more = len(later) - LATER_SHOWN
    return [*lines, f"- and {more} more tasks"] if more > 0 else lines


def plan_text(view: PromptView, plan: Iterable[str]) -> str:
    """Return the plan from here, as it is shown above the transcript."""
    lines = [without_middle(one_line(line), DESCRIPTION_CHARS) for line in plan]
    return without_middle("\n".join(lines), share_chars(view, PLAN_SHARE))


def _limits(view: PromptView) -> list[str]:
    """Return the goal's progress, and in the last third how little is left until the limit that comes first."""
    lines, state, hello = [], view.state, view.hello
    left, context = state.turns_left, hello.options.context
    if state.iteration >= context.progress_from:
        # counted over all attempts, plans and workers, so that they never go down
        most = state.iterations_granted + (hello.spec.max_iterations or context.max_iterations)
        lines.append(progress_marker(state.iteration, most, state.actions_total))
    if left is None or left.turns > ceil(left.of / 3):
        return lines
    turns = f"{left.turns} turn{'s' if left.turns > 1 else ''} left"
    urgent = left.turns <= ceil(left.of / 10)
    return [
        *lines,
        f"[EMERGENCY: {turns}. Finish NOW.]" if urgent else f"[{turns}]",
        f"Then {left.limit} are used up. Do only what is needed; if the goal is reached, call finish now.",
    ]


def _replan(state: HelloState) -> str:
    what, form = "the rest of the goal", "new tasks"
    if state.replan_required == "task":
        what, form = "this task", "exactly one task, with new subtasks"
    failure = without_middle(state.subtask.last_failure or "", 400)
    why = f" Last failure: {failure}" if failure else ""
    tried = [without_middle(text, 200) for text in state.given_up[-5:]]
    given_up = f" Given up before: {'; '.join(tried)}." if tried else ""
    none = ", none of these" if tried else ""
    name = without_middle(state.subtask.description, 300)
    closed = f'The subtask "{name}" does not work this way and is closed.'
    another = f"Find another way to do {what}{none}: call plan with {form}."
    lines = [f"{closed}{why}{given_up} {another}"]
    untried = state.replaceable if state.replan_required in ("task", "goal") else []
    if untried:
        lines.append("Pending, to be done after your plan:")
        for n, one in enumerate(untried[:UNTRIED_SHOWN], start=1):
            text = one.description + (
                " (begun before)" if one.actions_total else " (not tried yet)"
            )
            lines.append(f"{n}. {without_middle(one_line(text), DESCRIPTION_CHARS)}")
        more = len(untried) - UNTRIED_SHOWN
        lines += [f"and {more} more"] if more > 0 else []
        lines.append(
            "If your plan does one of them in another way, put its number in covers: it is replaced."
        )
    return "\n".join(lines)
