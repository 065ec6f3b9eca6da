"""`clew top`: checks that there is a terminal, then starts the app."""

import sys

from clew_daemon.cli import parameters
from clew_daemon.host.own_process import collect_as_usual, let_others_first
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import on_terminal

NO_TERMINAL = "`clew top` needs a terminal; `clew status` and `clew watch` do without one"


@parameters.command(parameters.optional_goal)
def top(instance: Instance, goal: str | None) -> None:
    """Show all goals live, or one: what needs you comes first, and keys do what the commands do."""
    if not (sys.stdin.isatty() and on_terminal()):
        raise CliError(NO_TERMINAL)
    from clew_daemon.top.app import TopApp

    collect_as_usual()
    let_others_first()
    TopApp(instance, goal).run()
