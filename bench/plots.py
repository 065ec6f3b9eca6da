"""Plots for docs/performance.md, as SVG with text as text."""

from itertools import cycle
from pathlib import Path
from typing import Any

from bench.figures import Series

FOLDER = Path(__file__).parents[1] / "docs" / "performance"
OURS, OTHERS, GRID = "#b5432a", "#4a6274", "#d8dde1"
CURVES = ("#4a6274", "#2a8a9e", "#7a5ca8", "#5f8f3e", "#c49a1a", "#222222")


def dots(name: str, title: str, series: list[Series], *, log: bool = True) -> Path:
    """Every value as a dot on its own line and the median as a bar; clew's stand out. All of one unit."""
    figure, axes = _axes(title, series[0].unit, 0.9 + 0.36 * len(series))
    for row, one in enumerate(reversed(series)):
        colour = OURS if one.name.startswith("clew") else OTHERS
        axes.scatter(one.values, [row] * len(one.values), s=14, color=colour, alpha=0.45, lw=0)
        axes.plot([one.median] * 2, [row - 0.32, row + 0.32], color=colour, lw=2)
    axes.set_yticks(range(len(series)), [one.name for one in reversed(series)])
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_plain)
    axes.set_xlabel(series[0].unit)
    return _save(figure, name)


Curves = dict[str, list[tuple[float, float]]]


def lines(name: str, title: str, x_label: str, unit: str, curves: Curves) -> Path:
    """Curves of points, on logarithmic axes."""
    figure, axes = _axes(title, unit, 3.0)
    colours = cycle(CURVES)
    for label, points in curves.items():
        colour = OURS if label.startswith("clew") else next(colours)
        axes.plot(*zip(*points, strict=True), marker="o", ms=4, lw=1.5, color=colour, label=label)
    axes.set_xlabel(x_label)
    axes.set_ylabel(unit)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for which in (axes.xaxis, axes.yaxis):
        which.set_major_formatter(_plain)
    axes.yaxis.set_minor_formatter(_plain)
    axes.legend(frameon=False, fontsize=9)
    return _save(figure, name)


def _plain(value: float, _: int) -> str:
    return f"{value:,.10g}"


def _axes(title: str, unit: str, height: float) -> tuple[Any, Any]:
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
    return figure, axes


def _save(figure: Any, name: str) -> Path:
    """Write the SVG without a date, so that equal figures make an equal file; on white, for dark pages."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.svg"
    from matplotlib import pyplot as plt

    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    plt.close(figure)
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
    return path
