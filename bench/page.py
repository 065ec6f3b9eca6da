"""The parts of docs/performance.md that a bench writes: the text between its two markers, and nothing else."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.figures import Series

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def grid(
    series: Mapping[str, Series],
    rows: Mapping[str, str],
    columns: Mapping[str, str],
    name: str = "{row}: {column}",
) -> str:
    """Return a table of series, by how they are named; rows and columns have labels."""

    def cell(row: str, column: str) -> str:
        found = series.get(name.format(row=row, column=column))
        return str(found) if found else ""

    lines = [[label, *(cell(row, column) for column in columns)] for row, label in rows.items()]
    return table(["", *columns.values()], lines)


def write(name: str, *parts: str, page: Path = PAGE) -> None:
    """Replace a bench's part of the page: the text between `<!-- NAME -->` and `<!-- /NAME -->`."""
    whole, text = page.read_text(), "\n\n".join(part for part in parts if part)
    part = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
    if not part.search(whole):
        raise SystemExit(f"{page} has no part <!-- {name} --> … <!-- /{name} -->: write it there")
    page.write_text(part.sub(lambda found: f"{found[1]}{text.strip()}\n{found[2]}", whole))
