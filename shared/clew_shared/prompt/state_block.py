"""The state block: the end of a prompt, with the state of the work and what is asked of the model now.

All that changes from turn to turn is here, so that what precedes it can be cached. Pure text of a view.
"""

import re

from clew_shared.prompt.messages import HEAD_CHARS, share_chars, warnings
from clew_shared.prompt.tools import is_own, listing
from clew_shared.prompt.view import PromptView
from clew_shared.prompt.windows import Window, progress_marker, urgency_marker
from clew_shared.text.shorten import one_line, without_middle
from clew_shared.tools import NO_LONGER, WRITE_ONLY_TOOLS
from clew_shared.wire.hello import Call, Entry, Said

FEEDBACK_SHOWN = 5
FEEDBACK_CHARS = 1_000
FEEDBACK_EARLIER_CHARS = 300
BLOCKED_SHOWN = 10
WARNINGS_SHOWN = 2
PROBES_SHOWN = 30
PLAN_SHARE = 0.05
DESCRIPTION_CHARS = 160
SPLIT_CHARS = 200
UNTRIED_SHOWN = 20
UNTRIED_CHARS = 160

NOT_YET = "The goal is not reached yet."
"""Begins the note of an agent that had the checks run after a change."""

AS_BEFORE = "It fails as before your change."
"""Follows it where the checks fail with the same last line as before: small models do the same again unless told."""

_LOOKS = frozenset({"read_file", "list_files", "search", "recall"})
"""After a mere look small models that are asked whether the goal is done say yes."""

_REPAIRS = re.compile(
    r"\b(fix|bugs?|fail(s|ed|ing)?|broken|repair|debug|change|update|refactor|improve|add|append|insert|set|edit"
    r"|modify|correct|extend|convert)\b",
    re.IGNORECASE,
)
"""Words of work on existing files: small models overwrite them unread unless asked to look first."""


_FAULTS = re.compile(
    r"\b(fix|bugs?|errors?|fail(s|ed|ing)?|broken|repair|debug|wrong|crash(es|ed)?)\b",
    re.IGNORECASE,
)
"""Words of goals that are about something that does not work: what their checks say at the start shows what it is."""


_BY_COMMAND = re.compile(r"\b(rename|replace|move|delete|remove)\b", re.IGNORECASE)
"""Words of work that one command does without a look."""


def is_about_a_fault(text: str) -> bool:
    """Return whether a goal is about something that does not work."""
    return bool(_FAULTS.search(text))


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
        lines.append(_ask(view))
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
    if view.probes:
        known = sorted(view.probes.items())[:PROBES_SHOWN]
        marks = (f"{without_middle(name, 60)} {'✓' if ok else '✗'}" for name, ok in known)
        lines.append("Known: " + ", ".join(marks))
    if view.blocked:
        names = "; ".join(without_middle(name, 120) for name in view.blocked[-BLOCKED_SHOWN:])
        lines.append(f"Refused from now on: {names}")
    lines += warnings(view, WARNINGS_SHOWN)
    if view.window is Window.MODERATE:
        lines += [f"You thought: {without_middle(text, 300)}" for text in _thoughts(view)]
    if view.idea and view.window < Window.AGGRESSIVE:
        lines.append(f"You wanted to do next: {without_middle(view.idea, 200)}")
    return [*lines, *_feedback(view)]


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
    """Return the goal's progress, and in the last two windows how little is left of this conversation."""
    lines = []
    if view.iteration >= view.windows.progress_from:
        goal = view.progress
        lines.append(progress_marker(goal.iteration, goal.max_iterations, goal.tools_used))
    if urgency := urgency_marker(view.window, max(view.max_iterations - view.iteration, 0)):
        lines += [urgency, "Do only what is needed; if the goal is reached, call finish now."]
    return lines


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


def _ask(view: PromptView) -> str:
    """Return the request for the next call."""
    last = next((e for e in reversed(view.transcript) if isinstance(e, Call)), None)
    return _ask_first(view) if last is None else _ask_after(last, view)


def _ask_after(last: Call, view: PromptView) -> str:
    """Return the request for the next call, which depends on the result of the last one."""
    what, done = ("goal", "finish") if view.implicit else ("subtask", "complete_subtask")
    if last.name == "finish":  # not accepted, or the agent would have ended
        return "Look at what is wrong: read the file, or list the folder with run_cmd. Then correct it."
    if last.result == "blocked":
        return f"It was refused. If the {what} is done, call {done}. If not, call something else."
    if last.result != "success":
        return f"That did not work. {_split(last)}Correct the call, or try another way."
    unverified = not (view.implicit and view.checks) or _changed(view)
    if last.changed is False and last.name in WRITE_ONLY_TOOLS:
        end = f"If the {what} is done, call {done} now." if unverified else "Change something else."
        return f"Nothing changed: it was already so. {end}"
    if view.implicit and view.checks and (last.name in _LOOKS or not _changed(view)):
        return _next_step(last, view)
    return f"Is the {what} done now? If yes, call {done}. If not, call the next tool."


def _next_step(last: Call, view: PromptView) -> str:
    if not any(map(_may_have_changed, view.transcript)):
        return "Nothing is changed yet. Take the next step towards the goal."
    if last.name in _LOOKS and not _changed(view):
        return "Now change what is wrong."  # else small models go on looking
    if failure := _same_failure(view.transcript[-1]):
        return f"{AS_BEFORE} Now change what is wrong: {failure}"
    if lost := last.output.partition(NO_LONGER)[2]:  # they write a part of the file, and run it
        name = without_middle(str(last.args.get("path", "The file")), DESCRIPTION_CHARS)
        return (
            f"{name} lacks lines that it had before. Put them back, unless they had to go: {lost}"
        )
    return "Take the next step towards the goal."


def _split(call: Call) -> str:
    r"""Return how a failed command fell into lines, if it did.

    JSON has no `\;`: a model whose answers must be JSON writes a line break in its place, and does not see why the
    command fails.
    """
    command = str(call.args.get("cmd", "")).strip()
    if "\n" not in command or "<<" in command:
        return ""
    first = without_middle(command.splitlines()[0], SPLIT_CHARS)
    return (
        f"Your cmd has a line break, so the shell ran this alone: {first}\n"
        "In JSON a backslash is written twice, as in \\\\; or \\\\. or \\\\(. "
    )


def _changed(view: PromptView) -> bool:
    """Return whether a call may have changed something since checks last failed."""
    for entry in reversed(view.transcript):
        if _shows_what_fails(entry):
            return False
        if _may_have_changed(entry):
            return True
    return False


def _same_failure(note: Entry) -> str:
    """Return the last line of the failure that a note says is as before, "" for another note."""
    if isinstance(note, Said) and note.text.startswith(f"{NOT_YET} {AS_BEFORE}"):
        return without_middle(note.text.rstrip().rpartition("\n")[2], 2 * DESCRIPTION_CHARS)
    return ""


def _shows_what_fails(entry: Entry) -> bool:
    """Return whether an entry is the result of checks: of a `finish` that was not accepted, or after a change."""
    if isinstance(entry, Said):
        return entry.text.startswith(NOT_YET)
    return entry.name == "finish"


def _may_have_changed(entry: Entry) -> bool:
    return isinstance(entry, Call) and entry.result == "success" and entry.changed is not False


def _needs_a_look(text: str) -> bool:
    by_command = _BY_COMMAND.search(text) and not is_about_a_fault(text)
    return bool(_REPAIRS.search(text)) and not by_command


def _ask_first(view: PromptView) -> str:
    """Return the request for the first call; each second attempt begins without a look, so that it goes another way."""
    if _needs_a_look(view.subtask or view.goal) and view.attempt.n % 2:
        return "First look: call read_file on what this is about, before you change anything."
    plan = "Call plan, or begin with another tool."
    return plan if any(tool.name == "plan" for tool in view.tools) else "Begin: call a tool."
