"""What a coding agent's CLI is asked: the goal at first, then what is still to do. Pure."""

from collections.abc import Sequence

from clew_shared.prompt.layout import FROM_EARLIER_GOALS
from clew_shared.record.model import StepStatus
from clew_shared.text.shorten import both_ends, one_line, without_middle
from clew_shared.text.words import ending
from clew_shared.wire.hello import Call, HelloAnswer, HelloState
from clew_worker.bridge.tools import joined, replan_text

PROMPT_CHARS = 30_000
"""As an argument of a command line it has at most 128 KiB (MAX_ARG_STRLEN), whatever its letters are."""

NOTES_CHARS = 12_000
PLAN_CHARS = 10_000
LATEST, LATEST_CHARS = 6, 400
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
    return _listed("A person says:", feedback)


def _listed(heading: str, lines: Sequence[str]) -> str:
    return "\n".join([heading, *(f"- {line}" for line in lines)]) if lines else ""


def _paragraphs(*parts: str) -> str:
    return without_middle("\n\n".join(part for part in parts if part), PROMPT_CHARS)


def _now(state: HelloState) -> str:
    if state.replan_required:
        return replan_text(state.replan_required)
    if not state.subtask.open:
        return "All subtasks are done. Call clew_done to have the goal checked."
    failure, is_new = state.subtask.last_failure, not (state.planned or state.acted)
    return joined(
        f"Current subtask: {state.subtask.description}",
        f"It failed once: {failure}. Find another way." if failure else "",
        "If the goal is large, split it first: call clew_plan." if is_new else "",
    )


def _done_when(hello: HelloAnswer) -> str:
    checks = [f"{name}: `{cmd}`" for name, cmd in hello.checks.items()]
    heading = "Checks, run at the end by clew; all must exit with 0:"
    return _paragraphs(hello.spec.done_when, _listed(heading, checks))


def _plan(state: HelloState) -> str:
    if not state.planned:
        return ""
    lines = ["# Plan"]
    for task in state.goal.tasks:
        lines.append(f"## {task.description}")
        lines += [
            f"- [{_MARKS.get(StepStatus(one.status), ' ')}] {one.description}"
            for one in task.subtasks
        ]
    summaries = [
        f"{one.description}: {both_ends(one.summary, SUMMARY_CHARS)}"
        for one in state.finished
        if one.summary
    ]
    done = joined("Done so far:", *summaries) if summaries else ""
    return without_middle(_paragraphs("\n".join(lines), done), PLAN_CHARS)


def _strategies(hello: HelloAnswer) -> str:
    listed = "\n".join(f"- {one.get('content', '')}" for one in hello.playbook)
    return f"{FROM_EARLIER_GOALS}\n{without_middle(listed, STRATEGIES_CHARS)}" if listed else ""


def _attempt(hello: HelloAnswer) -> str:
    attempt = hello.attempt
    if attempt.n < 2:
        return ""
    which = f"attempt {attempt.n} of {attempt.limit} at the current subtask"
    return joined(
        f"This is {which}; the last one ended: {ending(attempt.reason)}.",
        _listed("What was tried:", attempt.tried),
        "Find another way.",
    )


def _latest(state: HelloState) -> str:
    calls = [entry for entry in state.transcript if isinstance(entry, Call) and entry.recorded]
    lines = []
    for call in calls[-LATEST:]:
        args = both_ends(", ".join(f"{k}={v!r}" for k, v in call.args.items()), LATEST_CHARS)
        said = one_line(call.message or call.output)
        result = both_ends(f"{call.result}: {said}" if said else call.result, LATEST_CHARS)
        lines.append(f"#{call.seq} {call.name}({args}): {result}")
    return _listed("The last actions on record in this subtask:", lines)
