"""Commands that are imported when they are called, so that none waits for what another needs.

Help and completion list them by a line that stands beside the name. What they do is not known here.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

import click

LINE_CHARS = 1_000


class LazyCommand(click.Command):
    """Stands for a command whose file is not imported yet: its name, and its line in the help."""

    def __init__(self, name: str, place: str, line: str) -> None:
        super().__init__(name, short_help=line)
        self.place = place

    def imported(self) -> click.Command:
        """Return the command itself."""
        module, _, attribute = self.place.partition(":")
        found = getattr(
            import_module(f"clew_daemon.cli.commands.{module}"), attribute or str(self.name)
        )
        return cast("click.Command", found)


class Commands(click.Group):
    """A group of commands, in the order in which they are listed, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, each with its whole line: it is wrapped, never shortened."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, one.get_short_help_str(LINE_CHARS)) for name, one in found if one]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.imported() if isinstance(command, LazyCommand) else command, rest
