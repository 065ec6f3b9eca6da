"""The parts of docs/performance.md that a bench writes: what stands between its two markers, and nothing else.

The words around them are written by hand. A bench whose markers are missing is told so.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def under(kept: dict[str, Any]) -> str:
    """One sentence on how the figures were had, from what `figures.save` kept."""
    before, after = kept["before"], kept["after"]
    return (
        f"`{kept['command']}`, {before['at'][:10]}: {before['cores']} cores, Linux {before['kernel']},"
        f" Python {before['python']}; load {before['load'][0]} before, {after['load'][0]} after."
    )


def write(name: str, text: str, page: Path = PAGE) -> None:
    """Replace a bench's part of the page: what stands between `<!-- NAME -->` and `<!-- /NAME -->`."""
    whole = page.read_text()
    part = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
    if not part.search(whole):
        raise SystemExit(f"{page} has no part <!-- {name} --> … <!-- /{name} -->: write it there")
    page.write_text(part.sub(lambda found: f"{found[1]}{text.strip()}\n{found[2]}", whole))
