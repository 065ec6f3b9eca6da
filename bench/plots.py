"""Plots for docs/performance.md, as SVG with text as text."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from bench.figures import Series

FOLDER = Path(__file__).parents[1] / "docs" / "performance"
OURS, OTHERS, GRID = "#b5432a", "#4a6274", "#d8dde1"
CURVES = ("#4a6274", "#2a8a9e", "#7a5ca8", "#5f8f3e", "#c49a1a", "#222222")
Curves = dict[str, list[tuple[float, float]]]


def dots(name: str, title: str, series: Iterable[Series], *, log: bool = True) -> None:
    """Every value as a dot on its own line and the median as a bar; clew's stand out. All of one unit."""
    ranked = list(series)[::-1]
    with _axes(name, title, ranked[0].unit, 0.9 + 0.36 * len(ranked)) as axes:
        for row, one in enumerate(ranked):
            colour = OURS if one.name.startswith("clew") else OTHERS
            axes.scatter(one.values, [row] * len(one.values), s=14, color=colour, alpha=0.45, lw=0)
            axes.plot([one.median] * 2, [row - 0.32, row + 0.32], color=colour, lw=2)
        axes.set_yticks(range(len(ranked)), [one.name for one in ranked])
        axes.set_xlabel(ranked[0].unit)
        if log:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(_plain)


def lines(name: str, title: str, x_label: str, unit: str, curves: Curves) -> None:
    """Curves of points, on logarithmic axes."""
    colours = cycle(CURVES)
    with _axes(name, title, unit, 3.0) as axes:
        for label, points in curves.items():
            colour = OURS if label.startswith("clew") else next(colours)
            style = {"marker": "o", "ms": 4, "lw": 1.5, "color": colour}
            axes.plot(*zip(*points, strict=True), label=label, **style)
        axes.set(xlabel=x_label, ylabel=unit, xscale="log", yscale="log")
        axes.xaxis.set_major_formatter(_plain)
        axes.yaxis.set_major_formatter(_plain)
        axes.yaxis.set_minor_formatter(_plain)
        axes.legend(frameon=False, fontsize=9)


def _plain(value: float, _: int) -> str:
    return f"{value:,.10g}"


@contextmanager
def _axes(name: str, title: str, unit: str, height: float) -> Iterator[Any]:
    """Axes to draw on; equal figures make an equal file, without a date, and white for dark pages."""
    import matplotlib as mpl  # where no plot is made it need not be installed

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "clew"})
    mpl.rcParams.update({"font.family": "sans-serif", "font.size": 10})
    figure, axes = plt.subplots(figsize=(7.2, height), layout="constrained")
    axes.set_title(f"{title} ({unit})", loc="left", fontsize=11)
    axes.grid(color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    yield axes
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    plt.close(figure)
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
