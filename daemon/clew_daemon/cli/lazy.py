"""Commands that are imported when they are called, so that no command waits for the imports of another.

Help and completion list them by their names and summaries alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

import click

SUMMARY_CHARS = 1_000


class LazyCommand(click.Command):
    """A stand-in for a command that is not imported yet: its name, and its line in the help.

    `target` is its module below `cli.commands`, or the whole name of a module elsewhere, with `:attribute` where that
    is not the command's name. `section` is the heading that help lists it under.
    """

    def __init__(self, name: str, target: str, summary: str, section: str = "Commands") -> None:
        super().__init__(name, short_help=summary)
        self.target = target
        self.section = section

    def imported(self) -> click.Command:
        """Import and return the command itself."""
        module, _, attribute = self.target.partition(":")
        if not module.startswith("clew_daemon."):
            module = f"clew_daemon.cli.commands.{module}"
        found = getattr(import_module(module), attribute or str(self.name))
        return cast("click.Command", found)


class CommandGroup(click.Group):
    """A group of commands, listed in the order in which they were added, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by section, each with its whole summary: wrapped, never shortened."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        width = max(len(name) for name, _ in found)
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, one in found:
            if one:
                row = (name.ljust(width), one.get_short_help_str(SUMMARY_CHARS))
                sections.setdefault(getattr(one, "section", "Commands"), []).append(row)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.imported() if isinstance(command, LazyCommand) else command, rest
