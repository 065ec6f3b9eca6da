"""The body of a goal file, by its blocks: Markdown to goal, tasks, subtasks, steps and acceptance. Pure."""

import json
import posixpath
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from clew_daemon.inbox.goalfile.keys import GoalFileFault, duration
from clew_shared.record.spec import PlannedStep, PlannedSubtask, PlannedTask
from clew_shared.text.shorten import in_one_line
from clew_shared.text.validation import Expected

LINES_MAX, SUBTASKS_MAX = 20_000, 1_000
TITLE_CHARS_MAX, ITEM_CHARS_MAX = 200, 1_000
STEPS_BYTES_MAX = 400_000  # the steps of a subtask go to its agent in one line
SHELLS = frozenset({"sh", "bash", "shell"})
LISTS = frozenset({"bullet_list", "ordered_list"})
NO_CHECK = (
    "`## Done when` has no check. Write a list item that is only a command in backticks "
    "(- `pytest -q`), or a ```sh block"
)
CHECKBOX = re.compile(r"\[([ xX])\](?:\s+|$)")
TIMEOUT = re.compile(r"(?:^|\s)timeout=(\S*)")
FILE = re.compile(r"""(?:^|\s)file=(?:"([^"]*)"|'([^']*)'|(\S*))""")


@dataclass
class Section:
    """The blocks under one heading; `level` 0 is before any, and `line` is the heading's."""

    level: int
    title: str
    line: int
    blocks: list[SyntaxTreeNode] = field(default_factory=list)

    @property
    def is_done_when(self) -> bool:
        """Whether its heading begins with `Done when`, whatever its spelling."""
        words = re.findall(r"[^\W_]+", self.title.casefold())
        return self.level > 0 and words[:2] == ["done", "when"]

    @property
    def lists(self) -> list[SyntaxTreeNode]:
        return [block for block in self.blocks if block.type in LISTS]


class Body:
    """The content of a body, whose first line has that number; `without_check` is a `## Done when` without any."""

    def __init__(self, body: str, first_line: int) -> None:
        self._lines = body.split("\n")
        self._first_line = first_line
        self._notes: list[str] = []
        self.description = ""
        self.tasks: list[PlannedTask] = []
        self.done_when = ""
        self.commands: list[str] = []
        self.without_check: GoalFileFault | None = None
        self.faults: list[GoalFileFault] = []
        if len(self._lines) <= LINES_MAX:
            self._read(body)
        elif re.search(r"^ {0,3}#{1,2}\s", body, re.MULTILINE):
            message = f"the file has more than {LINES_MAX:,} lines of Markdown: split it into several goals"
            self.faults.append(GoalFileFault(None, message))
        else:
            self._take_plain(body)

    @property
    def notes(self) -> str:
        return "\n\n".join(self._notes)

    def _take_plain(self, body: str) -> None:
        self.description = _first_words(body)
        self._notes = [] if body.strip() == self.description else [body.strip()]

    def _read(self, body: str) -> None:
        sections = self._sections(body)
        intro = [s for s in sections if s.level < 2 and not s.is_done_when]
        heads = [s for s in sections if s.level == 2 and not s.is_done_when]
        done = [s for s in sections if s.is_done_when]
        goal = next((s.title for s in intro if s.level == 1 and s.title), "")
        # Without any `##` all lists under the goal are subtasks, else only those with a checkbox or a step.
        whole = bool(goal) and not heads
        lists = [
            one for s in intro for one in s.lists if whole or any(map(_is_marked, one.children))
        ]
        if not (goal or heads or done or lists):
            self._take_plain(body)
            return
        notes = "\n\n".join(filter(None, (self._prose(s, lists, goal) for s in intro)))
        description = in_one_line(goal or (heads[0].title if heads else ""), ITEM_CHARS_MAX)
        if (notes and not goal) or not description:
            description = _first_words(notes or body)
        self.description = description
        self._notes += [notes] if notes else []
        if subtasks := self._subtasks(lists):
            self.tasks.append(PlannedTask(description=description, subtasks=subtasks))
        self.tasks += [self._task(section) for section in heads]
        if (count := sum(len(task.subtasks) for task in self.tasks)) > SUBTASKS_MAX:
            message = f"the file has {count:,} subtasks, more than {SUBTASKS_MAX:,}: split it into several goals"
            self.faults.append(GoalFileFault(None, message))
        self.done_when = "\n\n".join(filter(None, (self._prose(s, []) for s in done)))
        for section in done:
            commands = [*_commands(section.blocks)]
            self.commands += commands
            if not commands and not self.without_check:
                self.without_check = GoalFileFault(section.line, NO_CHECK)

    def _sections(self, body: str) -> list[Section]:
        """Return the sections of `#` and `##`; a deeper heading is prose, but for a `Done when`."""
        markdown = MarkdownIt("commonmark")
        markdown.core.ruler.enableOnly(["normalize", "block"])
        markdown.block.ruler.disable(["reference", "lheading"])
        sections = [Section(0, "", self._first_line)]
        for block in SyntaxTreeNode(markdown.parse(body)).children:
            level = int(block.tag[1]) if block.type == "heading" else 0
            section = Section(level, _inline(block), self._line(block))
            if not level or (level > 2 and not section.is_done_when):
                sections[-1].blocks.append(block)
                continue
            sections.append(section)
            if level == 2 and not section.title:
                self._fault(block, "`##` needs a title, which names the task")
        return sections

    def _task(self, section: Section) -> PlannedTask:
        title = in_one_line(section.title, ITEM_CHARS_MAX)
        if notes := self._prose(section, section.lists):
            self._notes.append(f"{title}: {notes}")
        subtasks = self._subtasks(section.lists) or (PlannedSubtask(description=title),)
        return PlannedTask(description=title, subtasks=subtasks)

    def _subtasks(self, lists: list[SyntaxTreeNode]) -> tuple[PlannedSubtask, ...]:
        read = (self._subtask(item) for one in lists for item in one.children)
        return tuple(subtask for subtask in read if subtask is not None)

    def _subtask(self, item: SyntaxTreeNode) -> PlannedSubtask | None:
        """Return the item as a subtask, or None for an empty one."""
        title, blocks = _title_of(item)
        steps = tuple(filter(None, map(self._step, _fences(item))))
        box = CHECKBOX.match(title)
        words = " ".join(title[box.end() if box else 0 :].split())
        notes = "\n\n".join(self._source(block) for block in blocks if not _is_step(block))
        if not words and not steps:
            return None
        size = sum(len(json.dumps(step.args, ensure_ascii=False).encode()) for step in steps)
        if size > STEPS_BYTES_MAX:
            message = (
                f"the blocks of this item have {size:,} bytes, more than {STEPS_BYTES_MAX:,}: split it into "
                "several items, or let a command fetch or unpack large files"
            )
            self._fault(item, message)
        if len(words) > ITEM_CHARS_MAX:
            notes = f"{words}\n\n{notes}".strip()
        description = in_one_line(words, ITEM_CHARS_MAX)
        if not description:
            first = steps[0].args
            cmd = in_one_line(first.get("cmd", ""), TITLE_CHARS_MAX)
            description = f"Write {first['path']}" if "path" in first else f"Run {cmd}"
        self._notes += [f"{description}: {notes}"] if notes else []
        done = bool(box and box[1] != " ")
        return PlannedSubtask(description=description, done=done, steps=steps)

    def _step(self, fence: SyntaxTreeNode) -> PlannedStep | None:
        path = _file_of(fence)
        if path is not None:
            if fault := _path_fault(path):
                self._fault(fence, f"`file={in_one_line(path, 80)}` {fault}")
            args = {"path": posixpath.normpath(path or "."), "content": fence.content}
            return PlannedStep(tool="write_file", args=args)
        if _language(fence) not in SHELLS:
            return None
        command = fence.content.strip("\n")
        if not command.strip():
            self._fault(fence, "this block has no command: write one, or delete it")
        timeout_s, given = None, TIMEOUT.search(fence.info)
        try:
            timeout_s = duration(given[1]) if given else None
        except Expected as error:
            shown = in_one_line(given[1], 80) if given else ""
            self._fault(fence, f"`timeout=` must be {error}, not `{shown}`")
        return PlannedStep(tool="run_cmd", args={"cmd": command}, timeout_s=timeout_s)

    def _prose(self, section: Section, taken: list[SyntaxTreeNode], goal: str = "") -> str:
        """Return the section's source, without the lists taken as subtasks and the goal's title."""
        apart = set(taken)
        parts = [self._source(block) for block in section.blocks if block not in apart]
        if section.level == 1 and section.title not in {"", goal} and not section.is_done_when:
            parts.insert(0, f"# {section.title}")
        return "\n\n".join(filter(None, parts))

    def _source(self, block: SyntaxTreeNode) -> str:
        first, last = block.map or (0, 0)
        return textwrap.dedent("\n".join(self._lines[first:last])).strip("\n").rstrip()

    def _line(self, block: SyntaxTreeNode) -> int:
        return self._first_line + (block.map or (0, 0))[0]

    def _fault(self, block: SyntaxTreeNode, message: str) -> None:
        self.faults.append(GoalFileFault(self._line(block), message))


# ---- the Markdown


def _first_words(body: str) -> str:
    """Return the first sentence or so of a text, which describes it."""
    first = body.strip().split("\n", 1)[0].strip()
    if len(first) > TITLE_CHARS_MAX:
        first = re.split(r"(?<=[.!?])\s", first[: TITLE_CHARS_MAX * 4], maxsplit=1)[0]
    return in_one_line(first.lstrip("#>*-+ ") or first, TITLE_CHARS_MAX)


def _inline(block: SyntaxTreeNode) -> str:
    return " ".join(child.content for child in block.children if child.type == "inline").strip()


def _title_of(item: SyntaxTreeNode) -> tuple[str, list[SyntaxTreeNode]]:
    """Return the item's first paragraph, and the blocks after it."""
    blocks = list(item.children)
    if blocks and blocks[0].type == "paragraph":
        return _inline(blocks[0]), blocks[1:]
    return "", blocks


def _fences(block: SyntaxTreeNode) -> Iterator[SyntaxTreeNode]:
    return (node for node in block.walk() if node.type == "fence")


def _language(fence: SyntaxTreeNode) -> str:
    return (fence.info.split() or [""])[0].lower()


def _file_of(fence: SyntaxTreeNode) -> str | None:
    found = FILE.search(fence.info)
    return next((part for part in found.groups() if part is not None), "") if found else None


def _is_step(block: SyntaxTreeNode) -> bool:
    return block.type == "fence" and (_file_of(block) is not None or _language(block) in SHELLS)


def _is_marked(item: SyntaxTreeNode) -> bool:
    """Return whether a list item has a checkbox or a step, and so is a subtask wherever it stands."""
    return bool(CHECKBOX.match(_title_of(item)[0])) or any(map(_is_step, _fences(item)))


def _commands(blocks: list[SyntaxTreeNode]) -> Iterator[str]:
    """Yield the checks of a `## Done when`: its shell blocks, and items that are inline code."""
    for node in (node for block in blocks for node in block.walk()):
        command = ""
        if node.type == "fence" and _language(node) in SHELLS and _file_of(node) is None:
            command = node.content.strip()
        elif node.type == "list_item":
            command = _code_of(CHECKBOX.sub("", _title_of(node)[0], count=1).strip())
        if command:
            yield command


def _code_of(text: str) -> str:
    found = re.fullmatch(r"(`+)([^`]|[^`].*[^`])\1", text, re.DOTALL)
    return " ".join(found[2].split()) if found and found[1] not in found[2] else ""


def _path_fault(path: str) -> str | None:
    plain = posixpath.normpath(path) if path else "."
    if plain == "." or path.endswith("/"):
        return "does not name a file: write file=PATH"
    if plain.startswith(("/", "~")):
        return "must be relative to the workspace"
    if plain == ".." or plain.startswith("../"):
        return "leads out of the workspace: name a file inside it"
    return None
