"""The state block: the end of a prompt, with the state of the work and what is asked of the model now.

All that changes from turn to turn is here, so that what precedes it can be cached. Pure text of a view.
"""

from math import ceil

from clew_shared.guidance.requests import request
from clew_shared.prompt.messages import HEAD_CHARS, share_chars, warnings
from clew_shared.prompt.tools import is_own, listing
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
UNTRIED_CHARS = 160


def state_block(view: PromptView) -> str:
    """Return the last part of a prompt."""
    lines = [*_standing(view), *_limits(view)]
    own = tuple(t for t in view.tools if is_own(t))
    if own and view.mode == "json":
        lines.append("Also there now:\n" + listing(own))
    if view.replan:
        lines.append(_replan(view))
    elif not view.subtask_open:
        lines.append("Every subtask is over. Fix what is missing, then call finish.")
    else:
        lines.append(request(view, guided=view.guided))
    return "\n".join(lines)


def _standing(view: PromptView) -> list[str]:
    lines: list[str] = []
    if view.attempts and view.subtask_open:
        why = (
            f" It failed with: {without_middle(view.last_failure, 400)}"
            if view.last_failure
            else ""
        )
        # where there may be several attempts, their number is another one, and has its own block
        number = "" if view.attempt.limit > 1 else f"This is attempt {view.attempts + 1}."
        lines += filter(None, [f"{number}{why}".strip()])
    if view.next_subtask and f"- {view.next_subtask}" not in plan_text(view).splitlines():
        lines.append(f"After this subtask: {without_middle(view.next_subtask, 200)}")
    if view.there and view.guided and view.subtask_open and not view.replan:
        lines.append(f"These are there: {', '.join(view.there)}")
    lines += _probes(view)
    if view.blocked:
        names = "; ".join(without_middle(name, 120) for name in view.blocked[-BLOCKED_SHOWN:])
        lines.append(f"Refused from now on: {names}")
    lines += warnings(view, WARNINGS_SHOWN)
    if view.window is Window.MODERATE:
        lines += [f"You thought: {without_middle(text, 300)}" for text in _thoughts(view)]
    if view.idea and view.window < Window.AGGRESSIVE:
        lines.append(f"You wanted to do next: {without_middle(view.idea, 200)}")
    return [*lines, *_feedback(view)]


def _probes(view: PromptView) -> list[str]:
    """Return what probes and checks have found, by the action after which that was so."""
    found: dict[str, list[str]] = {}
    for name, probe in sorted(view.probes.items())[:PROBES_SHOWN]:
        after = f"after #{probe.after}" if probe.after else "at the start"
        since = "nothing changed since" if probe.current else "changed since"
        when = f"Checked {after}, {since}"
        mark = "✓" if probe.passed else "✗"
        found.setdefault(when, []).append(f"{without_middle(name, 60)} {mark}")
    return [f"{when}: {', '.join(marks)}" for when, marks in found.items()]


def plan_text(view: PromptView) -> str:
    """Return the plan from here, as it is shown above the transcript."""
    lines = [without_middle(one_line(line), DESCRIPTION_CHARS) for line in view.plan]
    return without_middle("\n".join(lines), share_chars(view.max_tokens, PLAN_SHARE))


def _thoughts(view: PromptView) -> list[str]:
    """Return the last thoughts, which are not in the transcript in this window."""
    texts = [e.text for e in view.transcript if isinstance(e, Said) and e.role == "assistant"]
    return [text[: 2 * HEAD_CHARS] for text in texts[-view.windows.moderate_thoughts :]]


def _feedback(view: PromptView) -> list[str]:
    """Return the feedback, the last one at greater length."""
    *earlier, last = view.feedback[-FEEDBACK_SHOWN:] or ("",)
    texts = [without_middle(text, FEEDBACK_EARLIER_CHARS) for text in earlier]
    texts += [without_middle(last, FEEDBACK_CHARS)] if last else []
    return [f"A person says: {text}" for text in texts]


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
    what = "this task" if view.replan == "task" else "the rest of the goal"
    why = f" Last failure: {without_middle(view.last_failure, 400)}" if view.last_failure else ""
    form = "exactly one task, with new subtasks" if view.replan == "task" else "new tasks"
    tried = [without_middle(text, 200) for text in view.given_up[-5:]]
    given_up = f" Given up before: {'; '.join(tried)}." if tried else ""
    none = ", none of these" if tried else ""
    return (
        f'The subtask "{without_middle(view.subtask, 300)}" does not work this way and is closed.{why}'
        f"{given_up} Find another way to do {what}{none}: call plan with {form}.{_untried(view)}"
    )


def _untried(view: PromptView) -> str:
    """Return the pending subtasks by their numbers, and what becomes of them; "" for none."""
    if not view.untried:
        return ""
    shown = [
        f"{number}. {without_middle(one_line(text), UNTRIED_CHARS)}"
        for number, text in enumerate(view.untried[:UNTRIED_SHOWN], start=1)
    ]
    if (more := len(view.untried) - UNTRIED_SHOWN) > 0:
        shown.append(f"and {more} more")
    return "\n".join(
        [
            "",
            "Pending, to be done after your plan:",
            *shown,
            "If your plan does one of them in another way, put its number in covers: it is replaced.",
        ]
    )
