"""The checks of a `## Done when`: what counts as one, what nearly does, and what is wrong with such a section. Pure."""

import re
from collections.abc import Callable, Iterator
from itertools import islice

from markdown_it.tree import SyntaxTreeNode

from clew_daemon.inbox.goalfile.blocks import (
    CHECKBOX,
    SHELLS,
    Section,
    file_of,
    inline,
    language,
    title_of,
)
from clew_daemon.inbox.goalfile.faults import GoalFileFault
from clew_shared.text.shorten import in_whole_words

NO_CHECK = (
    "`## Done when` has no check. Write a list item that is only a command in backticks "
    "(- `pytest -q`), or a ```sh block"
)
NEAR_MISSES_MAX = 5
"""How many near misses in a `## Done when` are named."""


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
