"""The prompt: a pure, byte-deterministic function of a view (design, "Context").

Most stable first, so that servers can cache the prefix: system · goal · finished subtasks · the current
subtask with what is folded of it · its transcript, append-only · last, the state block. It knows no clock, no
socket and no model.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace

from clew_shared.prompt_state import state_block
from clew_shared.prompt_tools import listing, schema_of
from clew_shared.prompt_transcript import (
    FOLDED_SHARE,
    Message,
    chars,
    folded_lines,
    live,
    settled,
    shortened,
)
from clew_shared.prompt_view import Call, Finished, Said, View
from clew_shared.windows import Window

RULES = (
    "You do a goal in a working folder by calling tools. "
    "Call one tool, read its result, then decide what is next. Use relative paths. "
    "Read a file before you change it. "
    "To create a file call write_file with its whole content; run_cmd is for commands and tests. "
    "Never repeat a call that succeeded: a call that brings nothing new is refused. "
    "When the goal is reached, call finish."
)
JSON_RULES = (
    'Answer with one JSON object and nothing else: {"tool": NAME, "args": {...}}\n'
    "The tools and their args (? = optional):"
)
JSON_REFLECTS = (
    'Where the last result taught you something, add "reflect": {"insights": what you found, '
    '"relevance": "high", "medium" or "low", "next": ..., "assessment": "advancing", "stuck" or '
    '"regressing"} to the object.'
)
FIXED_CHARS_PER_TOKEN = 3.0
"""What shares of the budget are reckoned by: calibrated counts would move what must stay the same."""

GOAL_SHARE, PLAYBOOK_SHARE, FINISHED_SHARE, PLAN_SHARE = 0.25, 0.2, 0.2, 0.08
MARGIN_SHARE = 0.03
ROOM_MIN_CHARS = 600
SUMMARY_CHARS = 240
DESCRIPTION_CHARS = 160
FOLDED_NAME_CHARS = 60
CHARS_PER_TOKEN_STEP = 0.5

Block = tuple[str, list[Message]]


def settle(view: View) -> View:
    """Fold what must be folded before the prompt is built; `folded` only ever grows in a subtask."""
    return replace(view, folded=settled(view, _room(view)))


def build(view: View) -> list[Message]:
    """Write the messages of a view, as the chat completions API takes them.

    Calls and results come in whole pairs; no two messages of one role (but `tool`) stand together.
    """
    return merged([message for _, messages in _blocks(view) for message in messages])


def head_sha(view: View) -> str:
    """Name what only a cut may change: tools, system, goal, finished work, subtask and folded lines."""
    tools = [] if view.mode == "json" else [schema_of(tool) for tool in view.tools]
    content = json.dumps([tools, [messages for _, messages in _head(view)]], ensure_ascii=False)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def describe(view: View) -> dict[str, dict[str, int]]:
    """Give the size of each block of the prompt: `chars` and estimated `tokens`."""
    sizes = {"tools": tools_chars(view)}
    sizes |= {name: chars(messages) for name, messages in _blocks(view)}
    sizes["total"] = sum(sizes.values())
    per_token = _per_token(view)
    return {n: {"chars": c, "tokens": round(c / per_token)} for n, c in sizes.items()}


def left_out(view: View) -> list[str]:
    """Say what the prompt does not show, and why."""
    said = []
    folded = sum(isinstance(e, Call) for e in view.transcript[: view.folded])
    if folded:
        why = "the token budget" if view.window < Window.EMERGENCY else "the emergency window"
        said.append(f"{folded} earlier calls of this subtask are lines ({why}; `recall` has them)")
    words = sum(isinstance(e, Said) and e.role == "assistant" for e in view.transcript)
    if words and view.window > Window.FULL:
        name = view.window.name.lower()
        said.append(f"{words} thoughts are not in the transcript (the {name} window)")
    lines = _finished_folded(view)
    if lines:
        said.append(f"{lines} finished subtasks are shown by name only (the token budget)")
    goal = _goal_parts(view)
    if chars([_user("\n\n".join(goal))]) > chars([_user(_goal(view))]):
        said.append("parts of the goal's text (a quarter of the token budget at most)")
    return said


def tools_chars(view: View) -> int:
    """Count the characters of the tools' schemas, which go beside the messages; none in json mode."""
    if view.mode == "json":
        return 0
    return len(json.dumps([schema_of(tool) for tool in view.tools]))


def playbook_chars(max_tokens: int) -> int:
    """Give how many characters of strategies a prompt of so many tokens has room for."""
    return int(max_tokens * FIXED_CHARS_PER_TOKEN * PLAYBOOK_SHARE)


# ---- the blocks


def _blocks(view: View) -> list[Block]:
    return [
        *_head(view),
        ("transcript", live(view)),
        ("state", [_user(state_block(view))]),
    ]


def _head(view: View) -> list[Block]:
    fixed = _fixed(view)
    folded = folded_lines(view, int(max(_free(view, fixed), 0) * FOLDED_SHARE))
    if folded:
        text = "Earlier in this subtask (#N: recall shows the output again):\n" + "\n".join(folded)
        return [*fixed, ("folded", [_user(text)])]
    return fixed


def _fixed(view: View) -> list[Block]:
    return [
        ("system", [{"role": "system", "content": _system(view)}]),
        ("goal", [_user(_goal(view))]),
        ("finished", [_user(_finished(view))] if view.finished or view.given_up else []),
        ("subtask", [] if view.implicit or not view.subtask else [_user(_now(view))]),
    ]


def _share(view: View, share: float) -> int:
    return max(int(view.max_tokens * FIXED_CHARS_PER_TOKEN * share), 200)


def _free(view: View, fixed: list[Block]) -> float:
    """Give the characters that the budget leaves to the transcript, by the fixed reckoning."""
    budget = view.max_tokens * FIXED_CHARS_PER_TOKEN
    return budget - sum(chars(messages) for _, messages in fixed) - tools_chars(view)


def _room(view: View) -> int:
    """Give the characters that live entries may take: what the calibrated budget leaves."""
    fixed = _fixed(view)
    budget = view.max_tokens * _per_token(view) * (1 - MARGIN_SHARE)
    taken = sum(chars(messages) for _, messages in fixed) + tools_chars(view)
    free = budget - taken - len(state_block(view))
    lines = max(_free(view, fixed), 0) * FOLDED_SHARE
    return max(int(free - lines), ROOM_MIN_CHARS) >> view.tightness


def _system(view: View) -> str:
    parts = [RULES]
    if view.mode == "json":
        parts.append(JSON_RULES + "\n" + listing(view.steady_tools))
        if view.reflects:
            parts.append(JSON_REFLECTS)
    if view.playbook.strip():
        parts.append(shortened(view.playbook.strip(), _share(view, PLAYBOOK_SHARE)))
    return "\n\n".join(parts)


def _goal(view: View) -> str:
    first, *rest = _goal_parts(view)
    room = _share(view, GOAL_SHARE)
    first = shortened(first, room)
    each = (room - len(first)) // max(len(rest), 1)
    return "\n\n".join([first, *(shortened(part, max(each, 100)) for part in rest)])


def _goal_parts(view: View) -> list[str]:
    parts = ["Goal: " + view.goal]
    if view.checks:
        lines = [f"- {name}: {command}" for name, command in view.checks.items()]
        parts.append("Checks that are run at the end and must exit 0:\n" + "\n".join(lines))
    if view.done_when.strip():
        parts.append("Done when:\n" + view.done_when.strip())
    if view.notes.strip() and view.notes.strip() != view.goal.strip():
        parts.append("Notes:\n" + view.notes.strip())
    return parts


def _finished(view: View) -> str:
    """Write a line for each finished subtask; over its share the oldest are only named."""
    named = _finished_folded(view)
    lines = [_finished_line(done) for done in view.finished[named:]]
    if named:
        room = _share(view, FINISHED_SHARE) // 3
        names = [shortened(_one(done.description), FOLDED_NAME_CHARS) for done in view.finished]
        text = "; ".join(names[:named])
        cut = text if len(text) <= room else "… " + text[-room:]
        lines.insert(0, f"- {named} before: {cut}")
    said = ["Finished before:\n" + "\n".join(lines)] if lines else []
    if view.given_up:
        tried = [f"- {shortened(_one(text), SUMMARY_CHARS)}" for text in view.given_up[-8:]]
        said.append("Tried and given up, not to be tried again:\n" + "\n".join(tried))
    return "\n".join(said)


def _finished_line(done: Finished) -> str:
    said = shortened(_one(done.summary), SUMMARY_CHARS)
    mark = "x" if done.status in ("completed", "skipped") else done.status
    found = "; ".join(shortened(_one(text), SUMMARY_CHARS // 2) for text in done.insights)
    tail = ". Found: ".join(part for part in (said, found) if part)
    name = shortened(_one(done.description), DESCRIPTION_CHARS)
    return f"- [{mark}] {name}" + (f": {tail}" if tail else "")


def _finished_folded(view: View) -> int:
    room = _share(view, FINISHED_SHARE) * 2 // 3
    return folded_count([len(_finished_line(done)) + 1 for done in view.finished], room)


def folded_count(sizes: list[int], room: int) -> int:
    """Say how many of the oldest are folded, given all sizes and the room, in characters.

    As if it had been asked after each: nothing until the room is full, then at once down to half of it. So
    the prompt's prefix stays the same between two folds. The newest is never folded.
    """
    folded, total = 0, 0
    for count, size in enumerate(sizes, start=1):
        total += size
        if total <= room:
            continue
        while folded < count - 1 and total > room / 2:
            total -= sizes[folded]
            folded += 1
    return folded


def _now(view: View) -> str:
    part_of = "" if view.task in ("", view.subtask, view.goal) else f' (part of "{view.task}")'
    now = f"Your subtask now: {view.subtask}{part_of}"
    if len(view.plan) > 1:
        plan = "\n".join(shortened(_one(line), DESCRIPTION_CHARS) for line in view.plan)
        now = "The plan from here:\n" + shortened(plan, _share(view, PLAN_SHARE)) + "\n\n" + now
    return now


# ---- messages


def _one(text: str) -> str:
    return " ".join(text.split())


def _user(content: str) -> Message:
    return {"role": "user", "content": content}


def merged(messages: Iterable[Message]) -> list[Message]:
    """Join what follows in one role, since many chat templates insist on turns.

    Words after a tool's result are put into that result for the same reason.
    """
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last and message["role"] == "user" and last["role"] in ("user", "tool"):
            joined[-1] = {**last, "content": last["content"] + "\n\n" + message["content"]}
        elif last and message["role"] == last["role"] == "assistant" and "tool_calls" not in last:
            content = (last["content"] + "\n\n" + message["content"]).strip()
            joined[-1] = {**message, "content": content}
        else:
            joined.append(message)
    return joined


def _per_token(view: View) -> float:
    """Give the calibration in steps, so that a small drift does not move the folds."""
    steps = round(view.chars_per_token / CHARS_PER_TOKEN_STEP)
    return max(steps, 2) * CHARS_PER_TOKEN_STEP
