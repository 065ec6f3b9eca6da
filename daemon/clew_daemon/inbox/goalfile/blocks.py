"""The Markdown of a goal file's body: its blocks, what they hold, and the sections that its headings make.

Pure. Only blocks are parsed (headings, lists, fences); the text inside a line stays as it was written. Setext headings
are off: a line of `---` under prose is no heading.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

SHELLS = frozenset({"sh", "bash", "shell"})
LISTS = frozenset({"bullet_list", "ordered_list"})
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
