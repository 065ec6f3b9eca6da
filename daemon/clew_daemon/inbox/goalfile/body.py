"""The body of a goal file: Markdown to goal, tasks, subtasks, steps and acceptance.

Pure. Only the blocks of Markdown are parsed (headings, lists, fences); the text inside a line
stays as it was written. Setext headings are off: a line of `---` under prose is no heading.
"""

import json
import posixpath
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from clew_daemon.inbox.goalfile.faults import GoalFileFault
from clew_daemon.inbox.goalfile.model import GoalFileSubtask, GoalFileTask, RunbookStep
from clew_shared.text.shorten import in_whole_words

LINES_MAX = 20_000
SUBTASKS_MAX = 1_000
TITLE_CHARS_MAX = 200
ITEM_CHARS_MAX = 1_000
NO_CHECK = (
    "`## Done when` has no check. Write a list item that is only a command in backticks "
    "(- `pytest -q`), or a ```sh block"
)
NEAR_MISSES_MAX = 5
"""How many near misses in a `## Done when` are named."""
STEPS_BYTES_MAX = 400_000
"""The steps of a subtask go to its agent in one line of the worker protocol."""

SHELLS = frozenset({"sh", "bash", "shell"})
LISTS = frozenset({"bullet_list", "ordered_list"})
CHECKBOX = re.compile(r"\[([ xX])\](?:\s+|$)")
FILE = re.compile(r"""(?:^|\s)file=(?:"([^"]*)"|'([^']*)'|(\S*))""")
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


@dataclass
class _Section:
    """The blocks under one heading; `level` 0 is before any, and `line` is the heading's."""

    level: int
    title: str
    line: int
    blocks: list[SyntaxTreeNode] = field(default_factory=list)

    @property
    def is_done_when(self) -> bool:
        return self.level > 0 and self.title.rstrip(": ").casefold() == "done when"

    @property
    def items(self) -> list[SyntaxTreeNode]:
        return [item for block in self.blocks if block.type in LISTS for item in block.children]


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


def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark")
    markdown.core.ruler.enableOnly(["normalize", "block"])
    markdown.block.ruler.disable(["reference", "lheading"])
    return markdown


class _Reader:
    """One reading of one body: its lines, and the faults found so far."""

    def __init__(self, body: str, first_line: int) -> None:
        self.body = body
        self.lines = body.split("\n")
        self.first_line = first_line
        self.faults: list[GoalFileFault] = []
        self.without_check: GoalFileFault | None = None

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
        self._check_acceptance(sections)
        return Body(
            description=description,
            notes=notes,
            tasks=[task for task in tasks if task.subtasks],
            done_when="\n\n".join(filter(None, (self._prose(s, []) for s in done))),
            commands=[command for section in done for command in _commands(section.blocks)],
            faults=self.faults,
            without_check=self.without_check,
        )

    def _sections(self) -> list[_Section]:
        sections = [_Section(0, "", self.first_line)]
        for block in SyntaxTreeNode(_markdown().parse(self.body)).children:
            level = int(block.tag[1]) if block.type == "heading" else 9
            if level > 2:
                sections[-1].blocks.append(block)
                continue
            title = _inline(block)
            sections.append(_Section(level, title, self._line(block)))
            if level == 2 and not title:
                self.faults.append(
                    GoalFileFault(self._line(block), "`##` needs a title, which names the task")
                )
        return sections

    def _subtask_lists(self, intro: list[_Section], *, whole: bool) -> list[SyntaxTreeNode]:
        """Return the lists above any `##` whose items are subtasks.

        All of them where the goal has no `##`; otherwise, and in text without any heading, only
        those with a checkbox or a step: other lists are prose.
        """
        lists = [block for s in intro for block in s.blocks if block.type in LISTS]
        return [block for block in lists if whole or any(map(_is_marked, block.children))]

    def _task(self, section: _Section) -> GoalFileTask:
        title = in_whole_words(section.title, ITEM_CHARS_MAX)
        lists = [block for block in section.blocks if block.type in LISTS]
        subtasks = self._subtasks(section.items) or (GoalFileSubtask(description=title),)
        return GoalFileTask(description=title, notes=self._prose(section, lists), subtasks=subtasks)

    def _subtasks(self, items: list[SyntaxTreeNode]) -> tuple[GoalFileSubtask, ...]:
        read = (self._subtask(item) for item in items)
        return tuple(subtask for subtask in read if subtask is not None)

    def _subtask(self, item: SyntaxTreeNode) -> GoalFileSubtask | None:
        """Return the item as a subtask, or None for an empty one."""
        title, blocks = _title(item)
        steps = tuple(filter(None, (self._step(fence) for fence in _fences(item))))
        box = CHECKBOX.match(title)
        words = " ".join(title[box.end() if box else 0 :].split())
        notes = "\n\n".join(self._source(b) for b in blocks if not _is_step(b))
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
        path = _file(fence)
        if path is not None:
            fault = _path_fault(path)
            if fault:
                self.faults.append(
                    GoalFileFault(line, f"`file={in_whole_words(path, 80)}` {fault}")
                )
            args = {"path": posixpath.normpath(path or "."), "content": fence.content}
            return RunbookStep(tool="write_file", args=args, line=line)
        if _language(fence) not in SHELLS:
            return None
        command = fence.content.strip("\n")
        if not command.strip():
            self.faults.append(
                GoalFileFault(line, "this block has no command: write one, or delete it")
            )
        return RunbookStep(tool="run_cmd", args={"cmd": command}, line=line)

    def _check_acceptance(self, sections: list[_Section]) -> None:
        """Refuse a `## Done when` that yields no check, and a heading like it whose checks would not count."""
        for section in sections:
            if section.is_done_when:
                self._check_done_when(section)
                continue
            if _names_acceptance(section.title) and any(_commands(section.blocks)):
                self._misnamed(section.line, "#" * section.level, section.title)
            for heading, blocks in _parts(section):
                if _names_acceptance(_inline(heading)) and any(_commands(blocks)):
                    self._misnamed(self._line(heading), heading.markup, _inline(heading))

    def _misnamed(self, line: int, marks: str, title: str) -> None:
        shown = f"{marks} {in_whole_words(title, 80)}"
        message = f"the checks under `{shown}` would not count: write the heading as `## Done when`"
        self.faults.append(GoalFileFault(line, message))

    def _check_done_when(self, section: _Section) -> None:
        """Refuse a section without a check; one of prose only may stand beside checks of the front matter."""
        if any(_commands(section.blocks)):
            return
        near = list(islice(_near_misses(section.blocks), NEAR_MISSES_MAX))
        shown = "".join(f"; line {self._line(node)} is not a check: {why}" for node, why in near)
        fault = GoalFileFault(section.line, NO_CHECK + shown)
        if near:
            self.faults.append(fault)
        else:
            self.without_check = self.without_check or fault

    def _prose(self, section: _Section, taken: list[SyntaxTreeNode], goal: str = "") -> str:
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


def _inline(block: SyntaxTreeNode) -> str:
    return " ".join(child.content for child in block.children if child.type == "inline").strip()


def _title(item: SyntaxTreeNode) -> tuple[str, list[SyntaxTreeNode]]:
    """Return the item's first paragraph, and the blocks after it."""
    blocks = list(item.children)
    if blocks and blocks[0].type == "paragraph":
        return _inline(blocks[0]), blocks[1:]
    return "", blocks


def _fences(block: SyntaxTreeNode) -> Iterator[SyntaxTreeNode]:
    return (node for node in block.walk() if node.type == "fence")


def _language(fence: SyntaxTreeNode) -> str:
    return (fence.info.split() or [""])[0].lower()


def _file(fence: SyntaxTreeNode) -> str | None:
    found = FILE.search(fence.info)
    return next((part for part in found.groups() if part is not None), "") if found else None


def _is_step(block: SyntaxTreeNode) -> bool:
    return block.type == "fence" and (_file(block) is not None or _language(block) in SHELLS)


def _is_marked(item: SyntaxTreeNode) -> bool:
    return bool(CHECKBOX.match(_title(item)[0])) or any(map(_is_step, _fences(item)))


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


def _commands(blocks: list[SyntaxTreeNode]) -> Iterator[str]:
    """Yield the checks of a `## Done when`: its shell blocks, and items that are inline code."""
    for block in blocks:
        for node in block.walk():
            if node.type == "fence" and _language(node) in SHELLS and _file(node) is None:
                command = node.content.strip()
            elif node.type == "list_item":
                command = _code_of(CHECKBOX.sub("", _title(node)[0], count=1).strip())
            else:
                command = ""
            if command:
                yield command


def _near_misses(blocks: list[SyntaxTreeNode]) -> Iterator[tuple[SyntaxTreeNode, str]]:
    """Yield what comes close to a check but is none, and why."""
    for block in blocks:
        for node in block.walk():
            if node.type == "fence":
                yield node, _why_no_check(node)
            elif node.type == "code_block":
                yield node, "an indented block; only a ```sh block is run"
            elif node.type == "paragraph" and "`" in _inline(node):
                yield node, "it is not a list item that is only a command in backticks"


def _why_no_check(fence: SyntaxTreeNode) -> str:
    if _file(fence) is not None:
        return "a block with `file=` writes a file"
    if _language(fence) in SHELLS:
        return "the block is empty"
    named = (
        f"a `{in_whole_words(_language(fence), 40)}` block" if _language(fence) else "a plain block"
    )
    return f"{named}; only a ```sh block is run"


def _parts(section: _Section) -> Iterator[tuple[SyntaxTreeNode, list[SyntaxTreeNode]]]:
    """Yield each deeper heading of a section with the blocks below it."""
    blocks = section.blocks
    headings = [n for n, block in enumerate(blocks) if block.type == "heading"]
    for n, end in pairwise([*headings, len(blocks)]):
        yield blocks[n], blocks[n + 1 : end]


def _names_acceptance(title: str) -> bool:
    """Return whether a heading begins like `Done when`, whatever its spelling."""
    return re.findall(r"[^\W_]+", title.casefold())[:2] == ["done", "when"]


def _code_of(text: str) -> str:
    """Return the code where the text is one piece of inline code and nothing else."""
    inner = text.strip("`")
    ticks = text[: len(text) - len(text.lstrip("`"))]
    whole = bool(ticks) and text == ticks + inner + ticks and ticks not in inner
    return " ".join(inner.split()) if whole else ""
