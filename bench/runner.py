"""The command line of a bench that has a part of docs/performance.md: it measures, prints, saves, and writes."""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

from bench import figures, page
from bench.figures import Recorder, Result

Options = argparse.Namespace


def parser(name: str, doc: str | None, given: Mapping[str, tuple[Any, str]]) -> Any:
    """Return a parser of options, each with its default value and a help text."""
    made = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=doc)
    for option, (default, text) in given.items():
        if default is False:
            made.add_argument(f"--{option}", action="store_true", help=text)
            continue
        kind: dict[str, Any] = {"type": type(default)}
        if isinstance(default, list):
            kind = {"type": type(default[0]) if default else int, "nargs": "+"}
        made.add_argument(f"--{option}", default=default, help=f"{text} [{default}]", **kind)
    return made


def main(name: str, measure: Callable[[Options, Recorder], dict[str, Any]], **given: Any) -> None:
    """Run the bench of the program's main module; `given` are its options."""
    bench: Any = sys.modules["__main__"]
    given["print"] = (False, "save nothing, write no page")
    options = parser(name, bench.__doc__, given).parse_args()
    before, found = figures.conditions(), Recorder()
    facts = measure(options, found)
    command = " ".join([f"python -m bench.{name}", *sys.argv[1:]])
    finish(name, bench, Result(command, before, figures.conditions(), facts, found), options)


def finish(name: str, bench: Any, result: Result, options: Any, part: str = "") -> None:
    """Print a result; save it and write the page, where that is wanted.

    `bench` is a module: `text(result)` returns its part of the page, `plot(result)`, if there is one, draws its plots.
    """
    for one in result.series.values():
        print(f"{one.name:62} {one}")
    for fact, value in result.facts.items():
        print(f"{fact}: {value}")
    if options.print:
        return
    figures.save(name, result)
    kept = figures.load(name)
    page.write(part or name, *bench.text(kept))
    if plot := getattr(bench, "plot", None):
        plot(kept)
