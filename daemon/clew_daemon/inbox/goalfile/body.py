"""The body of a goal file: Markdown to goal, tasks, subtasks, steps and acceptance.

Pure. `blocks` has the Markdown.
"""

import json
import posixpath
import re
import textwrap
from dataclasses import dataclass, field

from markdown_it.tree import SyntaxTreeNode

from clew_daemon.inbox.goalfile.blocks import (
    CHECKBOX,
    LISTS,
    SHELLS,
    AcceptanceCheck,
    Section,
    commands,
    fences,
    file_of,
    inline,
    is_marked,
    is_step,
    language,
    parsed,
    timeout_of,
    title_of,
)
from clew_daemon.inbox.goalfile.front_yaml import GoalFileFault
from clew_daemon.inbox.goalfile.keys import GoalFileSubtask, GoalFileTask, RunbookStep, duration
from clew_shared.text.shorten import in_whole_words
from clew_shared.text.validation import Expected

LINES_MAX = 20_000
SUBTASKS_MAX = 1_000
TITLE_CHARS_MAX = 200
ITEM_CHARS_MAX = 1_000
STEPS_BYTES_MAX = 400_000
"""The steps of a subtask go to its agent in one line of the worker protocol."""

STRUCTURE = re.compile(r"^ {0,3}#{1,2}\s", re.MULTILINE)


@dataclass
class Body:
    """The content of the body; `commands` are the checks of `## Done when`, in order.

    `without_check` is a `## Done when` of nothing but prose: wrong where the front matter has no check either.
    """

    description: str = ""
    notes: str = ""
    tasks: list[GoalFileTask] = field(default_factory=list)
    done_when: str = ""
    commands: list[str] = field(default_factory=list)
    without_check: GoalFileFault | None = None
    faults: list[GoalFileFault] = field(default_factory=list)


def read(body: str, first_line: int) -> Body:
    """Read the body, whose first line has that number in the file. Never raises."""
    if body.count("\n") >= LINES_MAX:
        plain = _plain(body)
        if STRUCTURE.search(body):
            message = f"the file has more than {LINES_MAX:,} lines of Markdown: split it into several goals"
            plain.faults.append(GoalFileFault(None, message))
        return plain
    return _Reader(body, first_line).read()


def _plain(body: str) -> Body:
    """Return text without structure: the whole of it is the goal."""
    text = body.strip()
    first = text.split("\n", 1)[0].strip()
    if len(first) > TITLE_CHARS_MAX:
        first = re.split(r"(?<=[.!?])\s", first[: TITLE_CHARS_MAX * 4], maxsplit=1)[0]
    description = in_whole_words(first.lstrip("#>*-+ ") or first, TITLE_CHARS_MAX)
    return Body(description=description, notes="" if text == description else text)


class _Reader:
    """One reading of one body: its lines, and the faults found so far."""

    def __init__(self, body: str, first_line: int) -> None:
        self.body = body
        self.lines = body.split("\n")
        self.first_line = first_line
        self.faults: list[GoalFileFault] = []

    def read(self) -> Body:
        sections = self._sections()
        intro = [s for s in sections if s.level < 2 and not s.is_done_when]
        heads = [s for s in sections if s.level == 2 and not s.is_done_when]
        done = [s for s in sections if s.is_done_when]
        goal = next((s.title for s in intro if s.level == 1 and s.title), "")
        lists = self._subtask_lists(intro, whole=bool(goal) and not heads)
        if not (goal or heads or done or lists):
            return _plain(self.body)
        notes = "\n\n".join(filter(None, (self._prose(s, lists, goal) for s in intro)))
        description = in_whole_words(goal or (heads[0].title if heads else ""), ITEM_CHARS_MAX)
        if (notes and not goal) or not description:
            description = _plain(notes or self.body).description
        tasks = [self._task(section) for section in heads]
        if lists:
            items = [item for block in lists for item in block.children]
            tasks.insert(0, GoalFileTask(description=description, subtasks=self._subtasks(items)))
        self._check_count(tasks)
        acceptance = AcceptanceCheck(self._line)
        for section in sections:
            acceptance.look(section)
        return Body(
            description=description,
            notes=notes,
            tasks=[task for task in tasks if task.subtasks],
            done_when="\n\n".join(filter(None, (self._prose(s, []) for s in done))),
            commands=[command for section in done for command in commands(section.blocks)],
            faults=[*self.faults, *acceptance.faults],
            without_check=acceptance.without_check,
        )

    def _sections(self) -> list[Section]:
        sections = [Section(0, "", self.first_line)]
        for block in parsed(self.body):
            level = int(block.tag[1]) if block.type == "heading" else 9
            if level > 2:
                sections[-1].blocks.append(block)
                continue
            title = inline(block)
            sections.append(Section(level, title, self._line(block)))
            if level == 2 and not title:
                self.faults.append(
                    GoalFileFault(self._line(block), "`##` needs a title, which names the task")
                )
        return sections

    def _subtask_lists(self, intro: list[Section], *, whole: bool) -> list[SyntaxTreeNode]:
        """Return the lists above any `##` whose items are subtasks.

        All of them where the goal has no `##`; otherwise, and in text without any heading, only
        those with a checkbox or a step: other lists are prose.
        """
        lists = [block for s in intro for block in s.blocks if block.type in LISTS]
        return [block for block in lists if whole or any(map(is_marked, block.children))]

    def _task(self, section: Section) -> GoalFileTask:
        title = in_whole_words(section.title, ITEM_CHARS_MAX)
        lists = [block for block in section.blocks if block.type in LISTS]
        subtasks = self._subtasks(section.items) or (GoalFileSubtask(description=title),)
        return GoalFileTask(description=title, notes=self._prose(section, lists), subtasks=subtasks)

    def _subtasks(self, items: list[SyntaxTreeNode]) -> tuple[GoalFileSubtask, ...]:
        read = (self._subtask(item) for item in items)
        return tuple(subtask for subtask in read if subtask is not None)

    def _subtask(self, item: SyntaxTreeNode) -> GoalFileSubtask | None:
        """Return the item as a subtask, or None for an empty one."""
        title, blocks = title_of(item)
        steps = tuple(filter(None, (self._step(fence) for fence in fences(item))))
        box = CHECKBOX.match(title)
        words = " ".join(title[box.end() if box else 0 :].split())
        notes = "\n\n".join(self._source(b) for b in blocks if not is_step(b))
        if not words and not steps:
            return None
        size = sum(len(json.dumps(step.args, ensure_ascii=False).encode()) for step in steps)
        if size > STEPS_BYTES_MAX:
            message = (
                f"the blocks of this item have {size:,} bytes, more than {STEPS_BYTES_MAX:,}: split it into "
                "several items, or let a command fetch or unpack large files"
            )
            self.faults.append(GoalFileFault(steps[0].line, message))
        if len(words) > ITEM_CHARS_MAX:
            notes = f"{words}\n\n{notes}".strip()
        return GoalFileSubtask(
            description=in_whole_words(words, ITEM_CHARS_MAX) or _named_by(steps[0]),
            done=bool(box and box[1] != " "),
            notes=notes,
            steps=steps,
        )

    def _step(self, fence: SyntaxTreeNode) -> RunbookStep | None:
        line = self._line(fence)
        path = file_of(fence)
        if path is not None:
            fault = _path_fault(path)
            if fault:
                self.faults.append(
                    GoalFileFault(line, f"`file={in_whole_words(path, 80)}` {fault}")
                )
            args = {"path": posixpath.normpath(path or "."), "content": fence.content}
            return RunbookStep(tool="write_file", args=args, line=line)
        if language(fence) not in SHELLS:
            return None
        command = fence.content.strip("\n")
        if not command.strip():
            self.faults.append(
                GoalFileFault(line, "this block has no command: write one, or delete it")
            )
        timeout_s = self._timeout(fence, line)
        return RunbookStep(tool="run_cmd", args={"cmd": command}, line=line, timeout_s=timeout_s)

    def _timeout(self, fence: SyntaxTreeNode, line: int) -> float | None:
        text = timeout_of(fence)
        if text is None:
            return None
        try:
            return duration(text)
        except Expected as error:
            given = in_whole_words(text, 80)
            self.faults.append(GoalFileFault(line, f"`timeout=` must be {error}, not `{given}`"))
            return None

    def _prose(self, section: Section, taken: list[SyntaxTreeNode], goal: str = "") -> str:
        """Return the section's source, without the lists taken as subtasks and the goal's title."""
        apart = set(taken)
        parts = [self._source(block) for block in section.blocks if block not in apart]
        if section.level == 1 and section.title not in {"", goal} and not section.is_done_when:
            parts.insert(0, f"# {section.title}")
        return "\n\n".join(filter(None, parts))

    def _source(self, block: SyntaxTreeNode) -> str:
        first, last = block.map or (0, 0)
        return textwrap.dedent("\n".join(self.lines[first:last])).strip("\n").rstrip()

    def _line(self, block: SyntaxTreeNode) -> int:
        return self.first_line + (block.map or (0, 0))[0]

    def _check_count(self, tasks: list[GoalFileTask]) -> None:
        count = sum(len(task.subtasks) for task in tasks)
        if count > SUBTASKS_MAX:
            message = f"the file has {count:,} subtasks, more than {SUBTASKS_MAX:,}: split it into several goals"
            self.faults.append(GoalFileFault(None, message))


def _named_by(step: RunbookStep) -> str:
    if step.tool == "write_file":
        return f"Write {step.args['path']}"
    return f"Run {in_whole_words(step.args['cmd'], TITLE_CHARS_MAX)}"


def _path_fault(path: str) -> str | None:
    plain = posixpath.normpath(path) if path else "."
    if plain == "." or path.endswith("/"):
        return "does not name a file: write file=PATH"
    if plain.startswith(("/", "~")):
        return "must be relative to the workspace"
    if plain == ".." or plain.startswith("../"):
        return "leads out of the workspace: name a file inside it"
    return None
