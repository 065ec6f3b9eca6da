"""The Markdown of a goal file's body: blocks, what they hold, sections, and the checks of a `## Done when`.

Pure. Only blocks are parsed (headings, lists, fences); the text inside a line stays as it was written. Setext headings
are off: a line of `---` under prose is no heading.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from clew_daemon.inbox.goalfile.front_yaml import GoalFileFault
from clew_shared.text.shorten import in_whole_words

SHELLS = frozenset({"sh", "bash", "shell"})
LISTS = frozenset({"bullet_list", "ordered_list"})
CHECKBOX = re.compile(r"\[([ xX])\](?:\s+|$)")
NO_CHECK = (
    "`## Done when` has no check. Write a list item that is only a command in backticks "
    "(- `pytest -q`), or a ```sh block"
)
NEAR_MISSES_MAX = 5
"""How many near misses in a `## Done when` are named."""
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
        return self.level > 0 and self.title.rstrip(": ").casefold() == "done when"

    @property
    def items(self) -> list[SyntaxTreeNode]:
        return [item for block in self.blocks if block.type in LISTS for item in block.children]

    @property
    def parts(self) -> Iterator[tuple[SyntaxTreeNode, list[SyntaxTreeNode]]]:
        """Yield each deeper heading with the blocks below it."""
        headings = [n for n, block in enumerate(self.blocks) if block.type == "heading"]
        for n, end in pairwise([*headings, len(self.blocks)]):
            yield self.blocks[n], self.blocks[n + 1 : end]


def parsed(body: str) -> list[SyntaxTreeNode]:
    """Return the blocks of a body."""
    markdown = MarkdownIt("commonmark")
    markdown.core.ruler.enableOnly(["normalize", "block"])
    markdown.block.ruler.disable(["reference", "lheading"])
    return SyntaxTreeNode(markdown.parse(body)).children


def inline(block: SyntaxTreeNode) -> str:
    """Return the text of a heading or paragraph."""
    return " ".join(child.content for child in block.children if child.type == "inline").strip()


def title_of(item: SyntaxTreeNode) -> tuple[str, list[SyntaxTreeNode]]:
    """Return the item's first paragraph, and the blocks after it."""
    blocks = list(item.children)
    if blocks and blocks[0].type == "paragraph":
        return inline(blocks[0]), blocks[1:]
    return "", blocks


def fences(block: SyntaxTreeNode) -> Iterator[SyntaxTreeNode]:
    """Return the fenced blocks in a block."""
    return (node for node in block.walk() if node.type == "fence")


def language(fence: SyntaxTreeNode) -> str:
    """Return the language that a fence names, "" for none."""
    return (fence.info.split() or [""])[0].lower()


def file_of(fence: SyntaxTreeNode) -> str | None:
    """Return the path of a fence with `file=PATH`, None without."""
    found = FILE.search(fence.info)
    return next((part for part in found.groups() if part is not None), "") if found else None


def timeout_of(fence: SyntaxTreeNode) -> str | None:
    """Return what a fence with `timeout=TIME` says, None without."""
    found = TIMEOUT.search(fence.info)
    return found[1] if found else None


def is_step(block: SyntaxTreeNode) -> bool:
    """Return whether a block is a command to run or a file to write."""
    return block.type == "fence" and (file_of(block) is not None or language(block) in SHELLS)


def is_marked(item: SyntaxTreeNode) -> bool:
    """Return whether a list item has a checkbox or a step, and so is a subtask wherever it stands."""
    return bool(CHECKBOX.match(title_of(item)[0])) or any(map(is_step, fences(item)))


class AcceptanceCheck:
    """What is wrong with how sections say when the goal is done; `line_of` returns a block's line in the file.

    `without_check` is a `## Done when` of nothing but prose: wrong where the front matter has no check either.
    """

    def __init__(self, line_of: Callable[[SyntaxTreeNode], int]) -> None:
        self._line_of = line_of
        self.faults: list[GoalFileFault] = []
        self.without_check: GoalFileFault | None = None

    def look(self, section: Section) -> None:
        """Look at a section: a `## Done when` that yields no check, and a heading like it, are faults."""
        if section.is_done_when:
            self._look_for_checks(section)
            return
        if _names_acceptance(section.title) and any(commands(section.blocks)):
            self._misnamed(section.line, "#" * section.level, section.title)
        for heading, blocks in section.parts:
            if _names_acceptance(inline(heading)) and any(commands(blocks)):
                self._misnamed(self._line_of(heading), heading.markup, inline(heading))

    def _misnamed(self, line: int, marks: str, title: str) -> None:
        shown = f"{marks} {in_whole_words(title, 80)}"
        message = f"the checks under `{shown}` would not count: write the heading as `## Done when`"
        self.faults.append(GoalFileFault(line, message))

    def _look_for_checks(self, section: Section) -> None:
        """Refuse a section without a check; one of prose only may stand beside checks of the front matter."""
        if any(commands(section.blocks)):
            return
        near = list(islice(_near_misses(section.blocks), NEAR_MISSES_MAX))
        shown = "".join(f"; line {self._line_of(node)} is not a check: {why}" for node, why in near)
        fault = GoalFileFault(section.line, NO_CHECK + shown)
        if near:
            self.faults.append(fault)
        else:
            self.without_check = self.without_check or fault


def commands(blocks: list[SyntaxTreeNode]) -> Iterator[str]:
    """Yield the checks of a `## Done when`: its shell blocks, and items that are inline code."""
    for block in blocks:
        for node in block.walk():
            if node.type == "fence" and language(node) in SHELLS and file_of(node) is None:
                command = node.content.strip()
            elif node.type == "list_item":
                command = _code_of(CHECKBOX.sub("", title_of(node)[0], count=1).strip())
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
            elif node.type == "paragraph" and "`" in inline(node):
                yield node, "it is not a list item that is only a command in backticks"


def _why_no_check(fence: SyntaxTreeNode) -> str:
    if file_of(fence) is not None:
        return "a block with `file=` writes a file"
    if language(fence) in SHELLS:
        return "the block is empty"
    named = (
        f"a `{in_whole_words(language(fence), 40)}` block" if language(fence) else "a plain block"
    )
    return f"{named}; only a ```sh block is run"


def _names_acceptance(title: str) -> bool:
    """Return whether a heading begins like `Done when`, whatever its spelling."""
    return re.findall(r"[^\W_]+", title.casefold())[:2] == ["done", "when"]


def _code_of(text: str) -> str:
    """Return the code where the text is one piece of inline code and nothing else."""
    inner = text.strip("`")
    ticks = text[: len(text) - len(text.lstrip("`"))]
    whole = bool(ticks) and text == ticks + inner + ticks and ticks not in inner
    return " ".join(inner.split()) if whole else ""
