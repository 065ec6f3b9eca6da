"""The command line of a bench that has a part of docs/performance.md: it measures, prints, saves, and writes."""

import argparse
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from bench import figures, page
from bench.figures import Recorder, Result

Options = argparse.Namespace


def parser(
    module: str, doc: str | None, given: Mapping[str, tuple[Any, str]]
) -> argparse.ArgumentParser:
    """Return a parser of options, each with its default value and a help text; strings are given by choice."""
    made = argparse.ArgumentParser(prog=f"python -m {module}", description=doc)
    for option, (default, text) in given.items():
        kind: dict[str, Any] = {"type": type(default)}
        if default is False:
            kind = {"action": "store_true"}
        elif isinstance(default, list):
            kind = {"type": type(default[0]) if default else int, "nargs": "+"}
            kind |= {"choices": default} if str in map(type, default) else {}
        usual = " ".join(map(str, default)) if isinstance(default, list) else default
        made.add_argument(f"--{option}", default=default, help=f"{text} [{usual}]", **kind)
    return made


def main(measure: Callable[[Options, Recorder], Any], **given: Any) -> None:
    """Measure, print the result, save it and write the page, where that is wanted.

    `measure` returns facts or nothing, `given` are the options; the program's `text(result)` returns its part of the
    page.
    """
    bench: Any = sys.modules["__main__"]
    module = bench.__spec__.name
    name = module.rpartition(".")[2]
    given["print"] = (False, "save nothing, write no page")
    options = parser(module, bench.__doc__, given).parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leaves nothing behind
    before, found = figures.conditions(), Recorder()
    facts = measure(options, found) or {}
    command = " ".join([f"python -m {module}", *sys.argv[1:]])
    result = Result(command, before, figures.conditions(), facts, found)
    for one in result.series.values():
        print(f"{one.name:62} {one}")
    for fact, value in result.facts.items():
        print(f"{fact}: {value}")
    if options.print:
        return
    figures.save(name, result)
    page.write(name, *bench.text(figures.load(name)))
