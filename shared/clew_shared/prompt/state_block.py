"""The state block: the end of a prompt, with the state of the work and what is asked of the model now.

All that changes from turn to turn is here, so that what precedes it can be cached. Pure text of a view.
"""

from collections.abc import Iterator
from math import ceil

from clew_shared.guidance.requests import request
from clew_shared.prompt.messages import HEAD_CHARS, share_chars
from clew_shared.prompt.tools import COMPLETE_SUBTASK, PLAN, listing
from clew_shared.prompt.view import PromptView
from clew_shared.prompt.windows import Window, progress_marker
from clew_shared.text.shorten import one_line, without_middle
from clew_shared.wire.hello import Said

FEEDBACK_SHOWN = 5
FEEDBACK_CHARS = 1_000
FEEDBACK_EARLIER_CHARS = 300
BLOCKED_SHOWN = 10
WARNINGS_SHOWN = 2
PROBES_SHOWN = 30
PLAN_SHARE = 0.05
DESCRIPTION_CHARS = 160
UNTRIED_SHOWN = 20


def state_block(view: PromptView) -> str:
    """Return the last part of a prompt."""
    lines = [*_standing(view), *_limits(view)]
    own = tuple(tool for tool in view.tools if tool.name in (PLAN.name, COMPLETE_SUBTASK.name))
    if own and view.mode == "json":  # they come and go: the system prompt does not list them
        lines.append("Also there now:\n" + listing(own))
    if view.replan:
        lines.append(_replan(view))
    elif not view.subtask_open:
        lines.append("Every subtask is over. Fix what is missing, then call finish.")
    else:
        lines.append(request(view, guided=view.guided))
    return "\n".join(lines)


def _standing(view: PromptView) -> Iterator[str]:
    if view.attempts and view.subtask_open:
        # where there may be several attempts, their number is another one, and has its own block
        number = "" if view.attempt.limit > 1 else f"This is attempt {view.attempts + 1}. "
        failure = without_middle(view.last_failure, 400)
        if text := number + (f"It failed with: {failure}" if failure else ""):
            yield text.strip()
    if view.next_subtask and f"- {view.next_subtask}" not in plan_text(view).splitlines():
        yield f"After this subtask: {without_middle(view.next_subtask, 200)}"
    if view.there and view.guided and view.subtask_open and not view.replan:
        yield f"These are there: {', '.join(view.there)}"
    yield from _probes(view)
    if view.blocked:
        names = "; ".join(without_middle(name, 120) for name in view.blocked[-BLOCKED_SHOWN:])
        yield f"Refused from now on: {names}"
    said = [entry for entry in view.transcript if isinstance(entry, Said)]
    folded = [e for e in view.transcript[: view.folded] if isinstance(e, Said) and e.warns]
    yield from (entry.text[: 2 * HEAD_CHARS] for entry in folded[-WARNINGS_SHOWN:])
    if view.window is Window.MODERATE:  # then thoughts are not in the transcript
        thoughts = [e.text for e in said if e.role == "assistant"][
            -view.windows.moderate_thoughts :
        ]
        yield from (f"You thought: {without_middle(text, 300)}" for text in thoughts)
    if view.idea and view.window < Window.AGGRESSIVE:
        yield f"You wanted to do next: {without_middle(view.idea, 200)}"
    *earlier, last = view.feedback[-FEEDBACK_SHOWN:] or ("",)
    yield from (f"A person says: {without_middle(t, FEEDBACK_EARLIER_CHARS)}" for t in earlier)
    if last:
        yield f"A person says: {without_middle(last, FEEDBACK_CHARS)}"


def _probes(view: PromptView) -> list[str]:
    """Return what probes and checks have found, by the action after which that was so."""
    found: dict[str, list[str]] = {}
    for name, probe in sorted(view.probes.items())[:PROBES_SHOWN]:
        after = f"after #{probe.after}" if probe.after else "at the start"
        since = "nothing changed since" if probe.current else "changed since"
        mark = f"{without_middle(name, 60)} {'✓' if probe.passed else '✗'}"
        found.setdefault(f"Checked {after}, {since}", []).append(mark)
    return [f"{when}: {', '.join(marks)}" for when, marks in found.items()]


def plan_text(view: PromptView) -> str:
    """Return the plan from here, as it is shown above the transcript."""
    lines = [without_middle(one_line(line), DESCRIPTION_CHARS) for line in view.plan]
    return without_middle("\n".join(lines), share_chars(view.max_tokens, PLAN_SHARE))


def _limits(view: PromptView) -> list[str]:
    """Return the goal's progress, and in the last third how little is left until the limit that comes first."""
    lines, goal, left = [], view.progress, view.left
    if goal.iteration >= view.windows.progress_from:
        lines.append(progress_marker(goal.iteration, goal.max_iterations, goal.tools_used))
    if left is None or left.turns > ceil(left.of / 3):
        return lines
    turns = f"{left.turns} turn{'s' if left.turns > 1 else ''} left"
    urgent = left.turns <= ceil(left.of / 10)
    return [
        *lines,
        f"[EMERGENCY: {turns}. Finish NOW.]" if urgent else f"[{turns}]",
        f"Then {left.limit} are used up. Do only what is needed; if the goal is reached, call finish now.",
    ]


def _replan(view: PromptView) -> str:
    what, form = "the rest of the goal", "new tasks"
    if view.replan == "task":
        what, form = "this task", "exactly one task, with new subtasks"
    why = f" Last failure: {without_middle(view.last_failure, 400)}" if view.last_failure else ""
    tried = [without_middle(text, 200) for text in view.given_up[-5:]]
    given_up = f" Given up before: {'; '.join(tried)}." if tried else ""
    none = ", none of these" if tried else ""
    closed = (
        f'The subtask "{without_middle(view.subtask, 300)}" does not work this way and is closed.'
    )
    another = f"Find another way to do {what}{none}: call plan with {form}."
    lines = [f"{closed}{why}{given_up} {another}"]
    if view.untried:
        shown = enumerate(view.untried[:UNTRIED_SHOWN], start=1)
        lines.append("Pending, to be done after your plan:")
        lines += [f"{n}. {without_middle(one_line(text), DESCRIPTION_CHARS)}" for n, text in shown]
        more = len(view.untried) - UNTRIED_SHOWN
        lines += [f"and {more} more"] if more > 0 else []
        lines.append(
            "If your plan does one of them in another way, put its number in covers: it is replaced."
        )
    return "\n".join(lines)
