"""The prompt: a pure, byte-deterministic function of a view (docs/context.md).

The most stable parts come first, so that servers can cache the prefix: system · goal · finished subtasks · the
current subtask, what was tried at it, its folded entries · its transcript, append-only · the state block. It knows
no clock, no socket and no model.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil

from clew_shared.guidance import request
from clew_shared.playbook.playbook import Bullet, render
from clew_shared.prompt import messages as conversation
from clew_shared.prompt.messages import HEAD_CHARS, Message, chars
from clew_shared.prompt.view import FIXED_CHARS_PER_TOKEN, PLAN, PromptView, listing
from clew_shared.prompt.windows import Window, progress_marker
from clew_shared.text.shorten import one_line, without_middle
from clew_shared.wire.hello import Call, FinishedSubtask, HelloAnswer, HelloState, Said

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
PLAN_SHARE = 0.05
NAMES_SHARE = 0.2
"""The part of the finished work's share for the names of subtasks that have no line of their own any more."""

MARGIN_SHARE = 0.03
ROOM_MIN_CHARS = 600
SUMMARY_CHARS, DESCRIPTION_CHARS, FOLDED_NAME_CHARS = 240, 160, 60
FEEDBACK_SHOWN, FEEDBACK_CHARS, FEEDBACK_EARLIER_CHARS = 5, 1_000, 300
BLOCKED_SHOWN, WARNINGS_SHOWN, THOUGHTS_SHOWN, PROBES_SHOWN = 10, 2, 2, 30
UNTRIED_SHOWN, LATER_SHOWN = 20, 3

Block = tuple[str, list[Message]]


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """A prompt laid out: the view, folded as far as it must be, and its blocks in their order."""

    view: PromptView
    blocks: tuple[Block, ...]

    @property
    def messages(self) -> list[Message]:
        """The messages of the chat completions API: calls and results in pairs, no two texts of one role adjacent."""
        return conversation.merged(message for _, messages in self.blocks for message in messages)

    @property
    def sha(self) -> str:
        """A hash of what only a fold changes: tools, system, goal, finished work, subtask, folded lines."""
        head = [messages for name, messages in self.blocks if name not in ("transcript", "state")]
        content = json.dumps([self.view.schemas, head], ensure_ascii=False)
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
        each = self.view.chars_each_token
        return {n: {"chars": c, "tokens": round(c / each)} for n, c in sizes.items()}


def lay_out(view: PromptView) -> PromptLayout:
    """Return the prompt of a view, folded as far as it must be; `folded` never decreases in a subtask."""
    fixed: list[Block] = [("system", [{"role": "system", "content": _system(view)}])]
    fixed += [(name, [_user(text)] if text else []) for name, text in told(view).items()]
    taken = _size(view, fixed)
    room = max(view.max_tokens * FIXED_CHARS_PER_TOKEN - taken, 0)
    lines_room = int(room * conversation.FOLDED_SHARE)
    budget = view.max_tokens * view.chars_each_token * (1 - MARGIN_SHARE)
    free = int(budget - taken - len(state_block(view)) - lines_room)
    folded = conversation.entries_to_fold(view, max(free, ROOM_MIN_CHARS) >> view.tightness)
    view = replace(view, folded=folded)
    if lines := conversation.folded_lines(view, lines_room):
        text = "Earlier in this subtask (#N: recall shows the output again):\n" + "\n".join(lines)
        fixed.append(("folded", [_user(text)]))
    transcript = [message for messages in conversation.unfolded(view) for message in messages]
    state: Block = ("state", [_user(state_block(view))])
    return PromptLayout(view, (*fixed, ("transcript", transcript), state))


def playbook_chars(max_tokens: int) -> int:
    """Return the characters of strategies that a prompt of `max_tokens` has room for."""
    return int(max_tokens * FIXED_CHARS_PER_TOKEN * PLAYBOOK_SHARE)


def _size(view: PromptView, blocks: Iterable[Block]) -> int:
    beside = len(json.dumps(view.schemas)) if view.mode == "tools" else 0
    return beside + sum(chars(messages) for _, messages in blocks)


# ---- the blocks


def told(view: PromptView) -> dict[str, str]:
    """Return what there is to know of a goal, its finished work and its current subtask, by block."""
    is_goal = view.implicit or not view.state.subtask.description
    texts = {"goal": _goal(view), "finished": _finished(view)}
    texts["subtask"] = "" if is_goal else _now(view)
    if view.hello.attempt.n > 1:
        texts["tried"] = _tried(view)
    return texts


def _system(view: PromptView) -> str:
    parts = [RULES]
    if view.mode == "json":
        parts.append(JSON_RULES + "\n" + listing(view.steady))
        if view.reflects:
            parts.append(JSON_REFLECTS)
    return "\n\n".join([*parts, *learned(view)])


def learned(view: PromptView) -> list[str]:
    """Return what earlier goals have taught, as far as there is room, in a text; none where that is nothing."""
    text = render(map(Bullet.from_dict, view.hello.playbook)).strip()
    shown = without_middle(text, view.share(PLAYBOOK_SHARE))
    return [f"{FROM_EARLIER_GOALS}\n\n{shown}"] if text else []


def _goal(view: PromptView) -> str:
    first, *rest = _goal_parts(view)
    room = view.share(GOAL_SHARE)
    first = without_middle(first, room)
    each = (room - len(first)) // max(len(rest), 1)
    return "\n\n".join([first, *(without_middle(part, max(each, 100)) for part in rest)])


def _goal_parts(view: PromptView) -> list[str]:
    hello, goal = view.hello, view.state.goal.description
    notes = hello.notes.strip()
    of_notes = ["Notes:\n" + notes] if notes not in ("", goal.strip()) else []
    return ["Goal: " + goal, *judged_by(hello), *of_notes]


def judged_by(hello: HelloAnswer) -> list[str]:
    """Return by what a goal is judged: its checks, and what its file says of it."""
    lines = [f"- {name}: {command}" for name, command in hello.checks.items()]
    checks = "Checks that are run at the end and must exit 0:\n" + "\n".join(lines)
    done_when = hello.spec.done_when.strip()
    return [*([checks] if lines else []), *(["Done when:\n" + done_when] if done_when else [])]


def _finished(view: PromptView) -> str:
    state, named = view.state, _finished_folded(view)
    lines = [_finished_line(done) for done in state.finished[named:]]
    if named:
        room = int(view.share(FINISHED_SHARE) * NAMES_SHARE)
        names = [one_line(done.description) for done in state.finished[:named]]
        text = "; ".join(without_middle(name, FOLDED_NAME_CHARS) for name in names)
        cut = text if len(text) <= room else "… " + text[-room:]
        lines.insert(0, f"- {named} before: {cut}")
    parts = ["Finished before:\n" + "\n".join(lines)] if lines else []
    if state.given_up:
        tried = [f"- {_short(text, SUMMARY_CHARS)}" for text in state.given_up[-8:]]
        parts.append("Tried and given up, not to be tried again:\n" + "\n".join(tried))
    return "\n".join(parts)


def _finished_line(done: FinishedSubtask) -> str:
    mark = "x" if done.status in ("completed", "skipped") else done.status
    found = "; ".join(_short(text, SUMMARY_CHARS // 2) for text in done.insights)
    tail = ". Found: ".join(part for part in (_short(done.summary, SUMMARY_CHARS), found) if part)
    name = _short(done.description, DESCRIPTION_CHARS)
    return f"- [{mark}] {name}" + (f": {tail}" if tail else "")


def _finished_folded(view: PromptView) -> int:
    """Return how many of the oldest are only named: at once enough for half the room, so the prefix stays the same."""
    room = int(view.share(FINISHED_SHARE) * (1 - NAMES_SHARE))
    sizes = [len(_finished_line(done)) + 1 for done in view.state.finished]
    folded, total = 0, 0
    for count, size in enumerate(sizes):
        total += size
        if total > room:
            while folded < count and total > room / 2:
                total -= sizes[folded]
                folded += 1
    return folded


def _now(view: PromptView) -> str:
    state = view.state
    task, subtask = state.task.description, state.subtask.description
    within = f' (part of "{_short(task, DESCRIPTION_CHARS * 2)}")'
    part_of = "" if task in ("", subtask, state.goal.description) else within
    now = f"Your subtask now: {without_middle(subtask, view.share(SUBTASK_SHARE))}{part_of}"
    plan = plan_lines(view)
    return f"The plan from here:\n{plan_text(view, plan)}\n\n{now}" if len(plan) > 1 else now


def _tried(view: PromptView) -> str:
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
    room = view.share(TRIED_SHARE) // max(len(attempt.tried), 1)
    lines = [f"- {without_middle(line, room)}" for line in attempt.tried]
    heading = ["What was tried, and what happened:"] if lines else []
    return "\n".join([begin, *heading, *lines, last])


# ---- the state block: all that changes from turn to turn


def state_block(view: PromptView) -> str:
    """Return the last part of a prompt."""
    state = view.state
    lines = [*_standing(view), *_limits(view)]
    if view.passing and view.mode == "json":  # the system prompt does not list them
        lines.append("Also there now:\n" + listing(view.passing))
    if state.replan_required:
        lines.append(_replan(state))
    elif not state.subtask.open:
        lines.append("Every subtask is over. Fix what is missing, then call finish.")
    else:
        plans = any(tool.name == PLAN.name for tool in view.passing)
        lines.append(request(view.hello, implicit=view.implicit, plans=plans))
    return "\n".join(lines)


def _standing(view: PromptView) -> Iterator[str]:
    state, hello = view.state, view.hello
    subtask = state.subtask
    if subtask.attempts and subtask.open:
        # where there may be several attempts, their number is another one, and has its own block
        number = "" if hello.attempt.limit > 1 else f"This is attempt {subtask.attempts + 1}. "
        failure = without_middle(subtask.last_failure or "", 400)
        if text := number + (f"It failed with: {failure}" if failure else ""):
            yield text.strip()
    following = next((s.description for s in state.goal.subtasks if s.status == "pending"), "")
    if following and f"- {following}" not in plan_text(view, plan_lines(view)).splitlines():
        yield f"After this subtask: {without_middle(following, 200)}"
    begins = subtask.open and not any(isinstance(e, Call) for e in state.transcript)
    if state.there and begins and hello.options.context.guidance and not state.replan_required:
        yield f"These are there: {', '.join(state.there)}"
    yield from _probes(state)
    if state.blocked_actions:
        names = [without_middle(name, 120) for name in state.blocked_actions[-BLOCKED_SHOWN:]]
        yield f"Refused from now on: {'; '.join(names)}"
    folded = [e for e in state.transcript[: view.folded] if isinstance(e, Said) and e.warns]
    yield from (entry.text[: 2 * HEAD_CHARS] for entry in folded[-WARNINGS_SHOWN:])
    if view.window is Window.MODERATE:  # then thoughts are not in the transcript
        said = (e for e in state.transcript if isinstance(e, Said) and e.role == "assistant")
        thoughts = [entry.text for entry in said][-THOUGHTS_SHOWN:]
        yield from (f"You thought: {without_middle(text, 300)}" for text in thoughts)
    if state.idea and view.window < Window.AGGRESSIVE:
        yield f"You wanted to do next: {without_middle(state.idea, 200)}"
    told = hello.feedback[-FEEDBACK_SHOWN:]
    for left, text in zip(range(len(told), 0, -1), told, strict=True):
        most = FEEDBACK_EARLIER_CHARS if left > 1 else FEEDBACK_CHARS
        yield f"A person says: {without_middle(text, most)}"


def _probes(state: HelloState) -> list[str]:
    """Say what probes and checks have found after which action; a later call of the transcript may have changed it."""
    calls = (e for e in state.transcript if isinstance(e, Call) and e.result != "blocked")
    last = max((call.seq for call in calls if call.changed is not False), default=0)
    found: dict[str, list[str]] = {}
    for name, probe in sorted(state.probes.items())[:PROBES_SHOWN]:
        after = f"after #{probe.after}" if probe.after else "at the start"
        current = probe.current and probe.after >= last
        since = "nothing changed since" if current else "changed since"
        mark = f"{without_middle(name, 60)} {'✓' if probe.passed else '✗'}"
        found.setdefault(f"Checked {after}, {since}", []).append(mark)
    return [f"{when}: {', '.join(marks)}" for when, marks in found.items()]


def plan_lines(view: PromptView) -> list[str]:
    """Return a line for each open subtask of the current task, and for the tasks after it."""
    state = view.state
    now = state.subtask
    shown = [one for one in state.task.subtasks if one is now or one.open]
    lines = [f"- {one.description}" + (" (now)" if one is now else "") for one in shown]
    following = state.goal.tasks[state.current_task_idx + 1 :]
    later = [t.description for t in following if t.status in ("pending", "in_progress", "blocked")]
    lines += [f"- later: {name}" for name in later[:LATER_SHOWN]]
    more = len(later) - LATER_SHOWN
    return [*lines, f"- and {more} more tasks"] if more > 0 else lines


def plan_text(view: PromptView, plan: Iterable[str]) -> str:
    lines = [_short(line, DESCRIPTION_CHARS) for line in plan]
    return without_middle("\n".join(lines), view.share(PLAN_SHARE))


def _limits(view: PromptView) -> Iterator[str]:
    """Yield the goal's progress, and in the last third how little is left until the limit that comes first."""
    state, hello = view.state, view.hello
    left, context = state.turns_left, hello.options.context
    if state.iteration >= context.progress_from:
        # counted over all attempts, plans and workers, so that they never go down
        most = state.iterations_granted + (hello.spec.max_iterations or context.max_iterations)
        yield progress_marker(state.iteration, most, state.actions_total)
    if left and left.turns <= ceil(left.of / 3):
        turns = f"{left.turns} turn{'s' if left.turns > 1 else ''} left"
        urgent = left.turns <= ceil(left.of / 10)
        yield f"[EMERGENCY: {turns}. Finish NOW.]" if urgent else f"[{turns}]"
        yield f"Then {left.limit} are used up. Do only what is needed; if the goal is reached, call finish now."


def _replan(state: HelloState) -> str:
    what, form = "the rest of the goal", "new tasks"
    if state.replan_required == "task":
        what, form = "this task", "exactly one task, with new subtasks"
    failure = without_middle(state.subtask.last_failure or "", 400)
    why = f" Last failure: {failure}" if failure else ""
    tried = "; ".join(without_middle(text, 200) for text in state.given_up[-5:])
    given_up, none = (f" Given up before: {tried}.", ", none of these") if tried else ("", "")
    name = without_middle(state.subtask.description, 300)
    closed = f'The subtask "{name}" does not work this way and is closed.'
    another = f"Find another way to do {what}{none}: call plan with {form}."
    lines = [f"{closed}{why}{given_up} {another}"]
    untried = state.replaceable if state.replan_required in ("task", "goal") else []
    if untried:
        lines.append("Pending, to be done after your plan:")
        for n, one in enumerate(untried[:UNTRIED_SHOWN], start=1):
            begun = "begun before" if one.actions_total else "not tried yet"
            lines.append(f"{n}. {_short(f'{one.description} ({begun})', DESCRIPTION_CHARS)}")
        if (more := len(untried) - UNTRIED_SHOWN) > 0:
            lines.append(f"and {more} more")
        another = "If your plan does one of them in another way, put its number in covers"
        lines.append(f"{another}: it is replaced.")
    return "\n".join(lines)


def _short(text: str, most: int) -> str:
    return without_middle(one_line(text), most)


def _user(content: str) -> Message:
    return {"role": "user", "content": content}
