"""The parts of docs/performance.md that a bench writes: the text between its two markers, and nothing else."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.figures import Series, short

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
CLEARLY = 1.1
"""Medians that differ by less than a tenth count as equal: these machines are noisy."""


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def grid(
    series: Mapping[str, Series],
    rows: Mapping[str, str],
    columns: Mapping[str, str],
    *,
    name: str = "{row}: {column}",
    corner: str = "",
    bare: bool = False,
) -> str:
    """Return a table of series, by how they are named; rows and columns have labels."""

    def cell(row: str, column: str) -> str:
        found = series.get(name.format(row=row, column=column))
        return (found.bare if bare else str(found)) if found else ""

    lines = [[label, *(cell(row, column) for column in columns)] for row, label in rows.items()]
    return table([corner, *columns.values()], lines)


def better(
    label: str, ours: Series, others: Mapping[str, Series], *, rate: bool = False
) -> list[str]:
    """Return a line that names the others that are clearly better, by medians; none without others.

    A lower figure is better, except for a rate.
    """
    if not others:
        return []
    best = ours.median * (CLEARLY if rate else 1 / CLEARLY)
    medians = sorted(((one.median, name) for name, one in others.items()), reverse=rate)
    named = [
        f"{name} ({short(median)})"
        for median, name in medians
        if (median > best if rate else median < best)
    ]
    found = f"better than clew ({short(ours.median)} {ours.unit}): {'; '.join(named)}"
    return [f"- {label}: {found if named else 'no other is clearly better than clew'}."]


def image(title: str, name: str) -> str:
    return f"![{title}](performance/{name}.svg)"


def write(name: str, *parts: str, page: Path = PAGE) -> None:
    """Replace a bench's part of the page: the text between `<!-- NAME -->` and `<!-- /NAME -->`."""
    whole, text = page.read_text(), "\n\n".join(part for part in parts if part)
    part = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
    if not part.search(whole):
        raise SystemExit(f"{page} has no part <!-- {name} --> … <!-- /{name} -->: write it there")
    page.write_text(part.sub(lambda found: f"{found[1]}{text.strip()}\n{found[2]}", whole))
