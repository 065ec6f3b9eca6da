"""What the model of a coding agent's CLI reads: clew's tools, the answers to their calls, and its prompts. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clew_shared.core.answers import Advice
from clew_shared.prompt.layout import judged_by, learned, told
from clew_shared.prompt.messages import folded_lines
from clew_shared.prompt.view import PromptView
from clew_shared.text.shorten import without_middle
from clew_shared.tools import BY_NAME, Tool, schema, text_schema
from clew_shared.wire.answers import Judged
from clew_shared.wire.hello import HelloAnswer, HelloState

OUTPUT_CHARS, PROMPT_CHARS = 60_000, 30_000
PROMPT_TOKENS, LATEST_CHARS = 16_000, 3_000  # for what is told of the goal, and of its last actions
RULES = """\
You work under clew, a supervisor. Your only tools that act are those of the MCP server "clew": clew_run, clew_read, \
clew_write, clew_edit, clew_list, clew_search, clew_recall. They work in the workspace {workspace}; paths are relative \
to it. Your own shell and file tools, if you have any, change nothing.
Work on the current subtask. When it is done call clew_done with success true; the answer has the next one, or the \
checks that fail. Go on until it says that the goal is completed.
A call that is refused was done before with the same result: read the refusal and do something else.
A call that takes long is answered with "still running": call clew_wait with its number.
A question in your text is not answered. If only a person can help, call clew_ask."""

INTERRUPTED = (
    "You were interrupted and have been started again. What clew has on record holds, also where you remember "
    "something else; what was running may or may not have had its effect."
)

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
_SUBTASKS["description"] = "Its subtasks, in order."
_TASK = schema(description=text_schema("What the task is to achieve."), subtasks=_SUBTASKS)
_TASKS = {"type": "array", "items": _TASK, "minItems": 1, "description": "In order."}
_RUNNING = {"type": "integer", "minimum": 1, "description": "The number of the running call."}
_SUMMARY = text_schema("What was done or why not, in one or two sentences.")
_TESTS = text_schema("Only when asked for: why the goal needs changed tests.")
_SUCCESS = {"type": "boolean", "description": "Whether the subtask is done."}

OFFERED: tuple[Tool, ...] = (
    *(Tool(name, BY_NAME[of].description, BY_NAME[of].parameters) for name, of in ACTIONS.items()),
    Tool(
        WAIT,
        "Wait for a call that was answered with `still running`, by its number.",
        schema("seq", seq=_RUNNING),
    ),
    Tool(
        DONE,
        "Say that the current subtask is done (success true), or that it cannot be done this way (success false). The "
        "answer has the next subtask; after the last one the goal's checks run, and the answer has those that fail.",
        schema(
            "summary", "tests_changed", success=_SUCCESS, summary=_SUMMARY, tests_changed=_TESTS
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


def warning(intervention: Advice) -> str:
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
    return f"Next subtask: {state.subtask.description}" if state.subtask.open else ""


def joined(*parts: str) -> str:
    """Join the parts that are not empty, each on a line of its own."""
    return "\n".join(part for part in parts if part)


# ---- the prompts: the goal at first, then what is still to do


def first_prompt(hello: HelloAnswer, *, resumed: bool = False) -> str:
    """Return the prompt of a new conversation, or the first to one that was interrupted, by the goal and its record."""
    view, lead = _view(hello), RULES.format(workspace=hello.spec.workspace)
    known = (*told(view).values(), *learned(view), _latest(view), feedback_text(hello.feedback))
    return _paragraphs(INTERRUPTED if resumed else lead, *known, _now(hello.state))


def next_prompt(
    hello: HelloAnswer, *, acted: bool, news: Sequence[str] = (), warnings: Sequence[str] = ()
) -> str:
    """Return the prompt of the next turn of a conversation; `news` is feedback that it has not had."""
    why = "Your turn has ended, but the goal is not completed."
    if not acted:
        why = "You ended your turn without a call of clew's tools, so nothing was done."
        why += " Call one now."
    told = joined(*warnings), feedback_text(news)
    return _paragraphs(why, *judged_by(hello), *told, _now(hello.state))


def feedback_text(feedback: Sequence[str]) -> str:
    return _listed("A person says:", [f"- {line}" for line in feedback])


def _listed(heading: str, lines: Sequence[str]) -> str:
    return "\n".join([heading, *lines]) if lines else ""


def _paragraphs(*parts: str) -> str:
    return without_middle("\n\n".join(part for part in parts if part), PROMPT_CHARS)


def _view(hello: HelloAnswer) -> PromptView:
    """Return what all prompts are made of, with more room than a small model has."""
    context = hello.options.context.model_copy(update={"max_tokens": PROMPT_TOKENS})
    options = hello.options.model_copy(update={"context": context})
    hello = hello.model_copy(update={"options": options})
    return PromptView(hello, folded=len(hello.state.transcript))


def _now(state: HelloState) -> str:
    if state.replan_required:
        return replan_text(state.replan_required)
    if not state.subtask.open:
        return "All subtasks are done. Call clew_done to have the goal checked."
    failure, is_new = state.subtask.last_failure, not (state.planned or state.acted)
    failed = f"It failed once: {failure}. Find another way." if failure else ""
    split = "If the goal is large, split it first: call clew_plan." if is_new else ""
    return joined(f"Current subtask: {state.subtask.description}", failed, split)


def _latest(view: PromptView) -> str:
    heading = "The last actions on record in this subtask:"
    return _listed(heading, folded_lines(view, LATEST_CHARS))
