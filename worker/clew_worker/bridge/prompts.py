"""What a coding agent's CLI is asked: the goal at first, then what is still to do. Pure."""

from collections.abc import Sequence

from clew_shared.prompt.layout import FROM_EARLIER_GOALS
from clew_shared.record.model import StepStatus
from clew_shared.text.shorten import both_ends, without_middle
from clew_shared.text.words import ending
from clew_shared.wire.hello import Call, HelloAnswer, HelloState, SentSubtask
from clew_worker.bridge.tools import joined, replan_text

PROMPT_CHARS = 30_000
"""As an argument of a command line it has at most 128 KiB (MAX_ARG_STRLEN), whatever its letters are."""

NOTES_CHARS = 12_000
PLAN_CHARS = 10_000
LATEST = 6
LATEST_CHARS = 400
SUMMARY_CHARS = 300
STRATEGIES_CHARS = 4_000

RULES = """\
You work under clew, a supervisor. Your only tools that act are those of the MCP server "clew": clew_run, clew_read, \
clew_write, clew_edit, clew_list, clew_search, clew_recall. They work in the workspace {workspace}; paths are relative \
to it. Your own shell and file tools, if you have any, change nothing.
Work on the current subtask. When it is done call clew_done with success true; the answer has the next one, or the \
checks that fail. Go on until it says that the goal is completed.
A call that is refused was done before with the same result: read the refusal and do something else.
A call that takes long is answered with "still running": call clew_wait with its number.
A question in your text is not answered. If only a person can help, call clew_ask."""

_MARKS = {
    StepStatus.COMPLETED: "x",
    StepStatus.IN_PROGRESS: ">",
    StepStatus.FAILED: "!",
    StepStatus.BLOCKED: "!",
    StepStatus.SKIPPED: "-",
}


def first_prompt(hello: HelloAnswer) -> str:
    """Return the prompt of a new conversation, from the goal and its record."""
    return _paragraphs(
        RULES.format(workspace=hello.spec.workspace),
        f"# Goal\n{hello.state.goal.description}",
        without_middle(hello.notes, NOTES_CHARS),
        _done_when(hello),
        _plan(hello.state),
        _strategies(hello),
        _attempt(hello),
        _latest(hello.state),
        feedback_text(hello.feedback),
        _now(hello.state),
    )


def resume_prompt(hello: HelloAnswer) -> str:
    """Return the prompt that continues the CLI's own session after it was interrupted."""
    return _paragraphs(
        "You were interrupted and have been started again. What clew has on record holds, also where you remember "
        "something else; what was running may or may not have had its effect.",
        _plan(hello.state),
        _latest(hello.state),
        feedback_text(hello.feedback),
        _now(hello.state),
    )


def next_prompt(hello: HelloAnswer, *, acted: bool, news: Sequence[str] = ()) -> str:
    """Return the prompt of the next turn of a conversation; `news` is feedback that it has not had."""
    why = (
        "Your turn has ended, but the goal is not completed."
        if acted
        else "You ended your turn without a call of clew's tools, so nothing was done. Call one now."
    )
    return _paragraphs(why, _done_when(hello), feedback_text(news), _now(hello.state))


def feedback_text(feedback: Sequence[str]) -> str:
    """Return what people have said."""
    said = "\n".join(f"- {text}" for text in feedback)
    return f"A person says:\n{said}" if said else ""


def _paragraphs(*parts: str) -> str:
    return without_middle("\n\n".join(part for part in parts if part), PROMPT_CHARS)


def _now(state: HelloState) -> str:
    if state.replan_required:
        return replan_text(state.replan_required)
    if not state.subtask.open:
        return "All subtasks are done. Call clew_done to have the goal checked."
    hint = ""
    if not state.planned and not state.acted:
        hint = "If the goal is large, split it first: call clew_plan."
    failure = state.subtask.last_failure
    failed = f"It failed once: {failure}. Find another way." if failure else ""
    return joined(f"Current subtask: {state.subtask.description}", failed, hint)


def _done_when(hello: HelloAnswer) -> str:
    checks = "\n".join(f"- {name}: `{cmd}`" for name, cmd in hello.checks.items())
    listed = f"Checks, run at the end by clew; all must exit with 0:\n{checks}" if checks else ""
    return _paragraphs(hello.spec.done_when, listed)


def _plan(state: HelloState) -> str:
    if not state.planned:
        return ""
    lines = ["# Plan"]
    for task in state.goal.tasks:
        lines.append(f"## {task.description}")
        lines += [_subtask_line(subtask) for subtask in task.subtasks]
    summaries = [
        f"{one.description}: {both_ends(one.summary, SUMMARY_CHARS)}"
        for one in state.finished
        if one.summary
    ]
    done = joined("Done so far:", *summaries) if summaries else ""
    return without_middle(_paragraphs("\n".join(lines), done), PLAN_CHARS)


def _subtask_line(subtask: SentSubtask) -> str:
    return f"- [{_MARKS.get(StepStatus(subtask.status), ' ')}] {subtask.description}"


def _strategies(hello: HelloAnswer) -> str:
    lines = [f"- {one.get('content', '')}" for one in hello.playbook]
    listed = without_middle("\n".join(lines), STRATEGIES_CHARS)
    return f"{FROM_EARLIER_GOALS}\n{listed}" if lines else ""


def _attempt(hello: HelloAnswer) -> str:
    attempt = hello.attempt
    if attempt.n < 2:
        return ""
    tried = "\n".join(f"- {line}" for line in attempt.tried)
    why = ending(attempt.reason)
    return joined(
        f"This is attempt {attempt.n} of {attempt.limit} at the current subtask; the last one ended: {why}.",
        f"What was tried:\n{tried}" if tried else "",
        "Find another way.",
    )


def _latest(state: HelloState) -> str:
    calls = [entry for entry in state.transcript if isinstance(entry, Call) and entry.recorded]
    lines = [_call_line(call) for call in calls[-LATEST:]]
    return joined("The last actions on record in this subtask:", *lines) if lines else ""


def _call_line(call: Call) -> str:
    args = ", ".join(f"{key}={value!r}" for key, value in call.args.items())
    said = " ".join((call.message or call.output).split())
    result = f"{call.result}: {said}" if said else call.result
    return f"- #{call.seq} {call.name}({both_ends(args, LATEST_CHARS)}): {both_ends(result, LATEST_CHARS)}"
