"""The tools of clew's MCP server: their schemas, the built-in tools behind them, the texts of their answers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from clew_shared.text.shorten import without_middle
from clew_shared.tools import BY_NAME, Tool, schema, text_schema
from clew_shared.wire.answers import Finished, Intervention, Judged
from clew_shared.wire.hello import HelloState

OUTPUT_CHARS = 60_000
CHECK_OUTPUT_CHARS = 1_500

ACTIONS: Mapping[str, str] = {
    "clew_run": "run_cmd",
    "clew_read": "read_file",
    "clew_write": "write_file",
    "clew_edit": "edit_file",
    "clew_list": "list_files",
    "clew_search": "search",
    "clew_recall": "recall",
}
"""The tools that are actions, by the names under which clew judges and records them."""

WAIT, DONE, PLAN, ASK = "clew_wait", "clew_done", "clew_plan", "clew_ask"


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What the model reads; `refused` if nothing was carried out."""

    text: str
    refused: bool = False


_SUBTASKS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_TASK = schema(
    description=text_schema("What the task is to achieve."),
    subtasks={**_SUBTASKS, "description": "Its subtasks, in order."},
)
_TASKS = {"type": "array", "items": _TASK, "minItems": 1, "description": "In order."}
_RUNNING = {"type": "integer", "minimum": 1, "description": "The number of the running call."}
_SECONDS = {"type": "number", "minimum": 0, "description": "How many seconds to wait."}
_SUCCESS = {"type": "boolean", "description": "Whether the subtask is done."}

OFFERED: tuple[Tool, ...] = (
    *(
        Tool(name, BY_NAME[tool].description, BY_NAME[tool].parameters)
        for name, tool in ACTIONS.items()
    ),
    Tool(
        WAIT,
        "Wait for a call that was answered with `still running`, by its number; or, with `seconds`, for other things.",
        schema(
            *("seq", "seconds", "why"),
            seq=_RUNNING,
            seconds=_SECONDS,
            why=text_schema("What you are waiting for."),
        ),
    ),
    Tool(
        DONE,
        "Say that the current subtask is done (success true), or that it cannot be done this way (success false). The "
        "answer has the next subtask; after the last one the goal's checks run, and the answer has those that fail.",
        schema(
            *("summary", "tests_changed"),
            success=_SUCCESS,
            summary=text_schema("What was done or why not, in one or two sentences."),
            tests_changed=text_schema("Only when asked for: why the goal needs changed tests."),
        ),
    ),
    Tool(
        PLAN,
        "Split the goal into tasks with subtasks; before any other call, or when an answer asks for a new plan.",
        schema(tasks=_TASKS),
    ),
    Tool(
        ASK,
        "Ask the person who gave the goal. The work stops until there is an answer, so ask only if nothing else helps.",
        schema(question=text_schema("The question, with all that is needed to answer it.")),
    ),
)

UNKNOWN_TOOL = "There is no tool {}. Available: " + ", ".join(tool.name for tool in OFFERED)


def judged_answer(judged: Judged) -> ToolAnswer:
    """Return the answer to an action."""
    outcome = judged.outcome
    note = warning(judged.intervention) if judged.intervention else ""
    advice = joined(note, replan_text(judged.escalated_to))
    if outcome is None:
        said = joined(judged.message or judged.reason, advice)
        return ToolAnswer(joined(said, other_names(said)), refused=True)
    code = "" if outcome.exit_code is None else f", exit code {outcome.exit_code}"
    ended = "" if outcome.result == "success" else f"[#{judged.seq} {outcome.result}{code}]"
    output = without_middle(outcome.output, OUTPUT_CHARS)
    if outcome.result == "interrupted":
        output = joined(output, f"Its effect is unknown: {outcome.reason or 'it was cut off'}.")
    return ToolAnswer(joined(output or "(no output)", ended, advice, other_names(advice)))


def other_names(text: str) -> str:
    """Return which of clew's tools are meant where a text of the daemon has the names of built-in ones."""
    found = {name: own for own, name in ACTIONS.items() if name in text}
    found |= {name: DONE for name in ("complete_subtask", "finish") if name in text}
    meant = ", ".join(f"{name} is {own}" for name, own in found.items())
    return f"(Here {meant}.)" if meant else ""


def warning(intervention: Intervention) -> str:
    """Return an intervention as the model reads it."""
    return f"Note from clew: {intervention.message}"


def replan_text(level: str | None) -> str:
    """Return what is needed where a subtask is blocked, "" where none is."""
    if level == "person":
        return "The goal now waits for a person. End your turn."
    if level not in ("task", "goal"):
        return ""
    scope = "one task whose subtasks replace it" if level == "task" else "tasks that replace it"
    return f"This subtask is blocked. Call clew_plan with another way: {scope}. Nothing else is accepted now."


def running_answer(seq: int) -> ToolAnswer:
    """Return the answer to a call that takes long; it is still the same action."""
    number, args = (f", #{seq}", f'{{"seq": {seq}}}') if seq else ("", "{}")
    return ToolAnswer(f"still running{number}. Call clew_wait {args} for its result.")


def next_subtask_text(state: HelloState) -> str:
    """Return the current subtask as the answer to the one before it."""
    return f"Next subtask: {state.subtask.description}" if state.subtask.open else ""


def finished_answer(finished: Finished) -> ToolAnswer:
    """Return the answer to the last `clew_done`: the goal is over, or what speaks against that."""
    if finished.accepted:
        return ToolAnswer("The goal is completed. End your turn; there is nothing more to do.")
    checks = []
    for check in finished.failing_checks:
        code = "" if check.exit_code is None else f" with exit code {check.exit_code}"
        output = without_middle(check.output.strip() or "(no output)", CHECK_OUTPUT_CHARS)
        checks.append(f"Check {check.name} fails{code}: {check.cmd}\n{output}")
    still_open = [f"Still open: {name}" for name in finished.open_subtasks[:10]]
    again = "Fix this, then call clew_done again."
    return ToolAnswer(
        joined("The goal is not completed yet.", *checks, *still_open, finished.message, again)
    )


def joined(*parts: str) -> str:
    """Join the parts that are not empty, each on a line of its own."""
    return "\n".join(part for part in parts if part)
