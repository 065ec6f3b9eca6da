"""How commands are made, and the arguments and options that several share."""

import re
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import click

from clew_daemon.reading import output
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line
from clew_daemon.reading.sanitize import clean

Text = Iterable[Line | str]
Shown = tuple[object, Text] | tuple[object, Text, bool]  # a value, its lines, whether it failed

Parameter = Callable[[Any], Any]  # an argument or an option, as click's decorators make them


def command(
    *given: Parameter, name: str | None = None, of: click.Group | None = None, **attrs: Any
) -> Callable[[Callable[..., object]], click.Command]:
    """Make a command, `of` a group, from a function of the instance and these arguments and options, in their order."""

    def made(function: Callable[..., object]) -> click.Command:
        called: Any = click.pass_obj(function)
        for parameter in reversed(given):
            called = parameter(called)
        done = click.command(name, click.Command, **attrs)(called)
        if of is not None:
            of.add_command(done)
        return done

    return made


def reading(
    *given: Parameter, name: str | None = None, of: click.Group | None = None
) -> Callable[[Callable[..., Shown]], click.Command]:
    """Make a command that prints what its function returns: as lines, or with `--json` its value."""

    def made(function: Callable[..., Shown]) -> click.Command:
        @wraps(function)
        def shown(instance: Instance, as_json: bool, **values: object) -> None:
            value, lines, *failed = function(instance, **values)
            output.show(value, lines, as_json=as_json, failed=any(failed))

        return command(*given, as_json, name=name, of=of)(shown)

    return made


def _known(context: click.Context, _: click.Parameter, given: Any) -> Any:
    """Return the ids of the goals that were meant, by names, ids and their beginnings; CliError where there is none."""
    from clew_daemon.reading.queries import goal_id

    if isinstance(given, tuple):
        return tuple(dict.fromkeys(goal_id(context.obj, one) for one in given))
    return None if given is None else goal_id(context.obj, given)


def _goals(metavar: str, more: str = "", *, known: bool = True) -> Parameter:
    """Return the argument `goal`, or `goals` for several; `known`: as ids on record, else as they were given."""
    several = metavar.endswith("...")
    which = "Names or ids of goals, or their beginnings" if several else _ONE
    return click.argument(
        "goals" if several else "goal",
        metavar=metavar,
        nargs=-1 if several else 1,
        required=not metavar.startswith("["),
        help=f"{which}{more}.",
        callback=_known if known else None,
    )


def flag(*given: str, **attrs: Any) -> Parameter:
    """Return an option without a value, of its names and its help."""
    *names, text = given
    return click.option(*names, is_flag=True, help=text, **attrs)


def option(*given: str, **attrs: Any) -> Parameter:
    """Return an option with a value, of its names, what stands for the value in the help, and the help itself."""
    *names, metavar, text = given
    return click.option(*names, metavar=metavar, help=text, **attrs)


_ONE = "A goal's name or id, or the beginning of either"
goal = _goals("GOAL")
goal_as_given = _goals("GOAL", known=False)
optional_goal = _goals("[GOAL]", "; omit for all goals")
goals_as_given = _goals("[GOAL]...", known=False)
some_goals = _goals("[GOAL]...", "; omit for all goals")
all_goals = flag("--all", "every", "All goals to which it applies.")
as_json = flag("--json", "as_json", "Print as JSON.", is_eager=True)
LIMIT, LIMIT_JSON = 100, 1_000


class Number(click.IntRange):
    """An integer as clew prints it: `#17` is 17."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or fail with a usage error."""
        return super().convert(str(value).removeprefix("#"), param, ctx)  # type: ignore[arg-type]


COUNT_MAX = 1_000_000
SEQ = Number(1, (1 << 63) - 1)  # the row ids of SQLite


def limit(default: int = LIMIT, which: str = "") -> Parameter:
    """Return the option for how many entries to show, None for all; it needs `as_json` beside it."""

    def shown(context: click.Context, _: click.Parameter, given: int | None) -> int | None:
        if given is None:
            return LIMIT_JSON if context.params["as_json"] else default
        return given or None

    text = f"Show the last N{which} (default {default}, with --json {LIMIT_JSON}; 0: all)."
    return option("-n", "--limit", "N", text, type=click.IntRange(0, COUNT_MAX), callback=shown)


def earlier_lines(more: object) -> list[Line]:
    """Return a line on entries that the limit left out; none if `more` is false."""
    return [[("… earlier ones are left out: -n 0 shows all", "dim")]] if more else []


def confirmed(question: str) -> bool:
    """Ask a person at a terminal; without one the answer is yes. Ctrl-C and Ctrl-D at the prompt are a no."""
    try:
        out = sys.stdout.isatty()
        asks = sys.stdin.isatty() and (out or sys.stderr.isatty())
        return not asks or click.confirm(question, err=not out)
    except click.Abort:
        print()
        return False


# -- the argument SUBTASK: `2.1` is the first subtask of the second task, as `clew history` shows it

_NUMBER = re.compile(r"#?(?:(\d{1,6})\.)?(\d{1,6})")
_SUBTASK = "Only this subtask: 2.1 is the first one of the second task."
subtask = click.argument("subtask", metavar="[SUBTASK]", required=False, help=_SUBTASK)


def position(instance: Instance, goal: str, number: str | None) -> tuple[int, int] | None:
    """Return which subtask a number names, None for none; with one task its own is enough. Raises CliError."""
    from clew_daemon.reading.queries import goal_state

    if number is None:
        return None
    found, tasks = _NUMBER.fullmatch(number), goal_state(instance, goal).goal.tasks
    if found and (found[1] or len(tasks) == 1):
        at = int(found[1] or 1) - 1, int(found[2]) - 1
        if 0 <= at[0] < len(tasks) and 0 <= at[1] < len(tasks[at[0]].subtasks):
            return at
    raise CliError(f"{goal} has no subtask {clean(number)!r}; `clew status {goal}` shows its tree")
