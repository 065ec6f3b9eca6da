"""The request for the first call of a conversation, by the words of the goal. Pure."""

import re

from clew_shared.prompt.view import PromptView

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

_SEARCHES = re.compile(
    r"\b(which|what|one of the|any|all|every|each) (of the )?files?\b.{0,60}\b(contain|mention|use|have|has)"
    r"|\bfind (the|all|every|each|any|out which) (files?|lines?|words?|places?|uses?|occurrences?)\b"
    r"|\bsearch (for|the|in|all)\b|\blook for\b",
    re.IGNORECASE | re.DOTALL,
)
"""Words of goals that begin with finding a text in files: small models open files whose names they invent."""


def is_about_a_fault(text: str) -> bool:
    """Return whether a goal is about something that does not work."""
    return bool(_FAULTS.search(text))


def _needs_a_look(text: str) -> bool:
    by_command = _BY_COMMAND.search(text) and not is_about_a_fault(text)
    return bool(_REPAIRS.search(text)) and not by_command


def _is_a_search(text: str) -> bool:
    return bool(_SEARCHES.search(text)) and not is_about_a_fault(text)


def first_call(view: PromptView) -> str:
    """Return the request for the first call; each second attempt begins without a look, so that it goes another way."""
    work = view.subtask or view.goal
    if _is_a_search(work):
        return "First look: search the files with run_cmd (grep -rn), before you open any."
    if _needs_a_look(work) and view.attempt.n % 2:
        return "First look: call read_file on what this is about, before you change anything."
    plan = "Call plan, or begin with another tool."
    return plan if any(tool.name == "plan" for tool in view.tools) else "Begin: call a tool."
