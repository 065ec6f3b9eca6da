"""The parts of docs/performance.md that a bench writes: the text between its two markers, and nothing else."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def image(title: str, name: str) -> str:
    return f"![{title}](performance/{name}.svg)"


def under(kept: dict[str, Any]) -> str:
    """One sentence on how the figures were measured, from what `figures.save` wrote."""
    before, after = kept["before"], kept["after"]
    return (
        f"`{kept['command']}`, {before['at'][:10]}: {before['cores']} cores, Linux {before['kernel']},"
        f" Python {before['python']}; load {before['load'][0]} before, {after['load'][0]} after."
    )


def write(name: str, *parts: str, page: Path = PAGE) -> None:
    """Replace a bench's part of the page: what stands between `<!-- NAME -->` and `<!-- /NAME -->`."""
    whole, text = page.read_text(), "\n\n".join(part for part in parts if part)
    part = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
    if not part.search(whole):
        raise SystemExit(f"{page} has no part <!-- {name} --> … <!-- /{name} -->: write it there")
    page.write_text(part.sub(lambda found: f"{found[1]}{text.strip()}\n{found[2]}", whole))
