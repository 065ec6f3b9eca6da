"""The prompt: a pure, byte-deterministic function of a view (docs/context.md).

The most stable parts come first, so that servers can cache the prefix: system · goal · finished subtasks · the
current subtask, what was tried at it, its folded entries · its transcript, append-only · the state block. It knows
no clock, no socket and no model.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from clew_shared.playbook.bullet import Bullet
from clew_shared.playbook.text import render
from clew_shared.prompt.messages import (
    FIXED_CHARS_PER_TOKEN,
    FOLDED_SHARE,
    Message,
    chars,
    entries_to_fold,
    folded_lines,
    share_chars,
    unfolded,
)
from clew_shared.prompt.state_block import DESCRIPTION_CHARS, plan_lines, plan_text, state_block
from clew_shared.prompt.view import PromptView, listing, schema_of, steady_tools
from clew_shared.text.shorten import one_line, without_middle
from clew_shared.wire.hello import Call, FinishedSubtask

RULES = (
    "You do a goal in a working folder by calling tools. "
    "Do in one command what belongs together, and read its result before you go on. Use relative paths. "
    "Read a file before you change it. To create a file call write_file with its whole content; "
    "to move, copy, delete or test call run_cmd. "
    "Never repeat a call that succeeded: a call that brings nothing new is refused. "
    "When the goal is reached, call finish."
)
JSON_RULES = (
    'Answer with one JSON object and nothing else: {"tool": NAME, "args": {...}}\n'
    "The tools and their args (? = optional):"
)
JSON_REFLECTS = (
    'Where the last result taught you something, add "reflect": {"insights": what you found, '
    '"learning": ..., "relevance": "high", "medium" or "low", "next": ..., "synthesis": ..., '
    '"assessment": "advancing", "stuck" or "regressing"} to the object.'
)
FROM_EARLIER_GOALS = "Learned from earlier goals; use only what fits this one:"
GOAL_SHARE, PLAYBOOK_SHARE, FINISHED_SHARE = 0.25, 0.2, 0.25
SUBTASK_SHARE = TRIED_SHARE = 0.15
NAMES_SHARE = 0.2
"""The part of the finished work's share for the names of subtasks that have no line of their own any more."""

MARGIN_SHARE = 0.03
ROOM_MIN_CHARS = 600
SUMMARY_CHARS = 240
FOLDED_NAME_CHARS = 60
CHARS_PER_TOKEN_STEP = 0.5
"""The calibration is rounded to steps, so that a small drift does not move the folds."""

Block = tuple[str, list[Message]]


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """A prompt laid out: the view, folded as far as it must be, and its blocks in their order."""

    view: PromptView
    blocks: tuple[Block, ...]

    @property
    def messages(self) -> list[Message]:
        """The messages in the form of the chat completions API.

        Calls and results come in whole pairs; no two messages of one role (except `tool`) are adjacent.
        """
        return _merged(message for _, messages in self.blocks for message in messages)

    @property
    def sha(self) -> str:
        """A hash of what only a fold changes: tools, system, goal, finished work, subtask, folded lines."""
        head = [messages for name, messages in self.blocks if name not in ("transcript", "state")]
        content = json.dumps([_schemas(self.view), head], ensure_ascii=False)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def chars(self) -> int:
        """The characters of all that is sent, the tools' schemas included; `chars_per_token` is measured on them."""
        return _size(self.view, self.blocks)

    @property
    def sizes(self) -> dict[str, dict[str, int]]:
        """The size of each block in `chars` and estimated `tokens`; the tools are sent beside the messages."""
        sizes = {name: chars(messages) for name, messages in self.blocks}
        sizes = {"tools": _size(self.view, ()), **sizes, "total": self.chars}
        per_token = _per_token(self.view)
        return {n: {"chars": c, "tokens": round(c / per_token)} for n, c in sizes.items()}

    @property
    def left_out(self) -> list[str]:
        """What the prompt does not show, and why."""
        view = self.view
        folded = sum(isinstance(e, Call) for e in view.state.transcript[: view.folded])
        named = _finished_folded(view)
        cut = len("\n\n".join(_goal_parts(view))) > len(_goal(view))
        facts = (
            (folded, f"{folded} earlier calls of this subtask are lines (`recall` has them)"),
            (named, f"{named} finished subtasks are shown by name only (the token budget)"),
            (cut, "parts of the goal's text (a quarter of the token budget at most)"),
        )
        return [text for holds, text in facts if holds]


def lay_out(view: PromptView) -> PromptLayout:
    """Return the prompt of a view, folded as far as it must be; `folded` never decreases in a subtask."""
    fixed = _fixed(view)
    taken = _size(view, fixed)
    lines_room = int(max(view.max_tokens * FIXED_CHARS_PER_TOKEN - taken, 0) * FOLDED_SHARE)
    budget = view.max_tokens * _per_token(view) * (1 - MARGIN_SHARE)
    free = int(budget - taken - len(state_block(view)) - lines_room)
    folded = entries_to_fold(view, max(free, ROOM_MIN_CHARS) >> view.tightness)
    view = replace(view, folded=folded)
    if lines := folded_lines(view, lines_room):
        text = "Earlier in this subtask (#N: recall shows the output again):\n" + "\n".join(lines)
        fixed.append(("folded", [_user(text)]))
    transcript = [message for messages in unfolded(view) for message in messages]
    state: Block = ("state", [_user(state_block(view))])
    return PromptLayout(view, (*fixed, ("transcript", transcript), state))


def playbook_chars(max_tokens: int) -> int:
    """Return the characters of strategies that a prompt of `max_tokens` has room for."""
    return int(max_tokens * FIXED_CHARS_PER_TOKEN * PLAYBOOK_SHARE)


def _schemas(view: PromptView) -> list[dict[str, object]]:
    return [] if view.mode == "json" else [schema_of(tool) for tool in view.tools]


def _size(view: PromptView, blocks: Iterable[Block]) -> int:
    beside = len(json.dumps(_schemas(view))) if view.mode == "tools" else 0
    return beside + sum(chars(messages) for _, messages in blocks)


def _per_token(view: PromptView) -> float:
    steps = round(view.chars_per_token / CHARS_PER_TOKEN_STEP)
    return max(steps, 2) * CHARS_PER_TOKEN_STEP


# ---- the blocks


def _fixed(view: PromptView) -> list[Block]:
    state, subtask = view.state, view.state.subtask.description
    return [
        ("system", [{"role": "system", "content": _system(view)}]),
        ("goal", [_user(_goal(view))]),
        ("finished", [_user(_finished(view))] if state.finished or state.given_up else []),
        ("subtask", [] if view.implicit or not subtask else [_user(_now(view))]),
        *([("tried", [_user(_tried(view))])] if view.hello.attempt.n > 1 else []),
    ]


def _system(view: PromptView) -> str:
    parts = [RULES]
    if view.mode == "json":
        parts.append(JSON_RULES + "\n" + listing(steady_tools(view.hello)))
        if view.reflects:
            parts.append(JSON_REFLECTS)
    if learned := render(map(Bullet.from_dict, view.hello.playbook)).strip():
        learned = without_middle(learned, share_chars(view, PLAYBOOK_SHARE))
        parts.append(f"{FROM_EARLIER_GOALS}\n\n{learned}")
    return "\n\n".join(parts)


def _goal(view: PromptView) -> str:
    first, *rest = _goal_parts(view)
    room = share_chars(view, GOAL_SHARE)
    first = without_middle(first, room)
    each = (room - len(first)) // max(len(rest), 1)
    return "\n\n".join([first, *(without_middle(part, max(each, 100)) for part in rest)])


def _goal_parts(view: PromptView) -> list[str]:
    hello, goal = view.hello, view.state.goal.description
    parts = ["Goal: " + goal]
    if hello.checks:
        lines = [f"- {name}: {command}" for name, command in hello.checks.items()]
        parts.append("Checks that are run at the end and must exit 0:\n" + "\n".join(lines))
    if done_when := hello.spec.done_when.strip():
        parts.append("Done when:\n" + done_when)
    if (notes := hello.notes.strip()) and notes != goal.strip():
        parts.append("Notes:\n" + notes)
    return parts


def _finished(view: PromptView) -> str:
    """Return a line for each finished subtask; over its share the oldest are only named."""
    state, named = view.state, _finished_folded(view)
    lines = [_finished_line(done) for done in state.finished[named:]]
    if named:
        room = int(share_chars(view, FINISHED_SHARE) * NAMES_SHARE)
        names = [one_line(done.description) for done in state.finished[:named]]
        text = "; ".join(without_middle(name, FOLDED_NAME_CHARS) for name in names)
        cut = text if len(text) <= room else "… " + text[-room:]
        lines.insert(0, f"- {named} before: {cut}")
    parts = ["Finished before:\n" + "\n".join(lines)] if lines else []
    if state.given_up:
        tried = [
            f"- {without_middle(one_line(text), SUMMARY_CHARS)}" for text in state.given_up[-8:]
        ]
        parts.append("Tried and given up, not to be tried again:\n" + "\n".join(tried))
    return "\n".join(parts)


@lru_cache(maxsize=1024)
def _finished_line(done: FinishedSubtask) -> str:
    summary = without_middle(one_line(done.summary), SUMMARY_CHARS)
    mark = "x" if done.status in ("completed", "skipped") else done.status
    found = "; ".join(without_middle(one_line(text), SUMMARY_CHARS // 2) for text in done.insights)
    tail = ". Found: ".join(part for part in (summary, found) if part)
    name = without_middle(one_line(done.description), DESCRIPTION_CHARS)
    return f"- [{mark}] {name}" + (f": {tail}" if tail else "")


def _finished_folded(view: PromptView) -> int:
    """Return how many of the oldest finished subtasks are only named; the newest never is.

    They are added one by one: none is folded until the room is full, then enough at once that the rest takes half of
    it. So the prompt's prefix stays the same between two folds.
    """
    room = int(share_chars(view, FINISHED_SHARE) * (1 - NAMES_SHARE))
    sizes = [len(_finished_line(done)) + 1 for done in view.state.finished]
    folded, total = 0, 0
    for count, size in enumerate(sizes, start=1):
        total += size
        full = total > room
        while full and folded < count - 1 and total > room / 2:
            total -= sizes[folded]
            folded += 1
    return folded


def _now(view: PromptView) -> str:
    state = view.state
    task, subtask = state.task.description, state.subtask.description
    within = f' (part of "{without_middle(one_line(task), DESCRIPTION_CHARS * 2)}")'
    part_of = "" if task in ("", subtask, state.goal.description) else within
    now = f"Your subtask now: {without_middle(subtask, share_chars(view, SUBTASK_SHARE))}{part_of}"
    plan = plan_lines(view)
    return f"The plan from here:\n{plan_text(view, plan)}\n\n{now}" if len(plan) > 1 else now


def _tried(view: PromptView) -> str:
    """Return what earlier attempts at the current subtask did, and what has become of their files."""
    what, attempt = "goal" if view.implicit else "subtask", view.hello.attempt
    begin = f"Earlier attempts at this {what} have failed. Start again from the beginning."
    last = "Find another way."
    if attempt.kept:
        why = without_middle(attempt.kept, 200)
        begin = f"Earlier attempts at this {what} have ended. Their files are still there ({why}): look at them first."
        last = "Continue from there, or find another way."
    elif attempt.restored:
        begin += " The files are as they were before them"
        begin += f", except {', '.join(attempt.left)}." if attempt.left else "."
    room = share_chars(view, TRIED_SHARE) // max(len(attempt.tried), 1)
    lines = [f"- {without_middle(line, room)}" for line in attempt.tried]
    heading = ["What was tried, and what happened:"] if lines else []
    return "\n".join([begin, *heading, *lines, last])


# ---- messages


def _user(content: str) -> Message:
    return {"role": "user", "content": content}


def _merged(messages: Iterable[Message]) -> list[Message]:
    """Join adjacent messages of one role, since many chat templates insist on turns.

    A user's text after a tool's result is appended to that result for the same reason.
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
