"""What a model found in its last results: part of its answer, or the answer to a question of its own.

Progress never depends on it: what is missing or malformed is left out. Pure functions of texts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from clew_shared.prompt.reasoning import RELEVANCES, as_text
from clew_shared.text.shorten import in_one_line, one_line

FIELD_CHARS = 600
PARTS_MAX = 20
STRATEGIES_MAX = 3
ASSESSMENTS = ("advancing", "stuck", "regressing")
_NAMES = {
    "insights": ("insights", "insight", "found"),
    "learning": ("learning", "learned", "lesson"),
    "relevance": ("relevance",),
    "next": ("next", "next_suggested_actions", "next_action", "next_step"),
    "assessment": ("assessment", "progress_assessment"),
    "synthesis": ("synthesis",),
}

ASK_REFLECTION = (
    "Before you go on: what did the last results tell you? Answer with one JSON object: "
    '{"insights": ..., "learning": ..., "relevance": "high", "medium" or "low", "next": ..., '
    '"synthesis": what it means for the goal, "assessment": "advancing", "stuck" or "regressing"}'
)
ASK_STRATEGIES = (
    "This subtask is over. Which strategy would help with similar work next time? Only what the results above "
    f"have shown, at most {STRATEGIES_MAX}, one sentence each; none is a good answer. Answer with one JSON object: "
    '{"strategies": [{"section": "file_operations, testing, shell_commands, ...", "content": ...}]}'
)


def parts_of(raw: Any) -> tuple[dict[str, str], ...]:
    """Return the parts of `reflect`: from an object, or a list with one for each call; () for anything else."""
    given = raw if isinstance(raw, list) else [raw]
    parts = (_part(one) for one in given[:PARTS_MAX] if isinstance(one, Mapping))
    return tuple(part for part in parts if part)


def _part(raw: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name, spellings in _NAMES.items():
        value = next((raw[key] for key in spellings if raw.get(key)), "")
        if text := in_one_line(as_text(value), FIELD_CHARS):
            found[name] = text
    for name, allowed in (("relevance", RELEVANCES), ("assessment", ASSESSMENTS)):
        value = found.pop(name, "").casefold()
        if value in allowed:
            found[name] = value
    return found


def assessment_of(parts: Sequence[Mapping[str, str]]) -> str:
    """Return the last assessment among the parts, "" if there is none."""
    return next((part["assessment"] for part in reversed(parts) if "assessment" in part), "")


def strategies_of(raw: Any) -> list[dict[str, str]]:
    """Return the strategies of an answer as deltas for `learn`."""
    given = raw.get("strategies") if isinstance(raw, Mapping) else raw
    deltas = []
    for one in given if isinstance(given, list) else ():
        content = one.get("content") if isinstance(one, Mapping) else one
        section = one.get("section") if isinstance(one, Mapping) else None
        if isinstance(content, str) and content.strip():
            section = section if isinstance(section, str) and section.strip() else "general"
            text = in_one_line(content, FIELD_CHARS)
            deltas.append({"op": "add", "section": one_line(section)[:60], "content": text})
    return deltas[:STRATEGIES_MAX]
