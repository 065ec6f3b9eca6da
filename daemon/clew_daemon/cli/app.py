"""The list of commands with a line about each, each imported when it is called, and the options of `clew` itself."""

from __future__ import annotations

import os
import subprocess
from importlib import import_module
from pathlib import Path
from typing import cast

import click

import clew_daemon
from clew_daemon import VERSION
from clew_daemon.reading.instance import Instance

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


SECTIONS = {
    "Goals": [
        ("submit", "submit", "Add goals: files, or the text of a goal."),
        ("status", "status", "Show all goals, or one goal's tree and progress."),
        ("watch", "watch:command", "Show what goals do, as it happens."),
        ("top", "clew_daemon.top.command:top", "Show goals live, and steer them by keys."),
        ("web", "clew_daemon.web.command:web", "Show goals in the browser, and act on them there."),
    ],
    "What a goal did": [
        ("history", "history", "Show a goal's actions, oldest first."),
        ("show", "history", "Show one action in full: arguments, verdict, output."),
        ("diff", "diff", "Show what a goal, or a subtask, changed in its workspace."),
        ("proof", "proof", "Show what a goal's label says, and accept what it asks about."),
        ("loops", "loops", "Show the loops that were detected, with the evidence."),
        ("context", "context", "Show exactly what the agent's LLM would be shown now."),
        ("logs", "logs", "Show the last lines of the log, or follow it."),
    ],
    "Steering": [
        ("continue", "steering:go_on", "Continue goals, whatever stopped them."),
        ("feedback", "steering", "Send the agent a message; this resumes a blocked goal."),
        ("pause", "steering", "Stop goals until `clew continue`, after the running action."),
        ("edit", "edit", "Change a goal's text, checks or limits in your editor."),
        ("undo", "undo", "Restore what a goal, or a subtask, changed in its workspace."),
        ("unblock", "steering", "Allow a refused action again (see `clew status GOAL`)."),
        ("cancel", "steering", "Cancel goals (`continue` reopens them)."),
        ("rm", "steering", "Take goals that have ended out of the lists."),
        ("resume", "steering", "As `continue`, for paused, waiting or blocked goals only."),
        ("retry", "steering", "As `continue`, for failed, cancelled or blocked goals only."),
    ],
    "The daemon": [
        ("run", "run", "Run the daemon in the foreground, as systemd does."),
        ("start", "service", "Start the systemd user service."),
        ("stop", "service", "Stop the systemd user service."),
        ("restart", "service", "Restart the systemd user service."),
        ("reload", "config", "Read the config again, and show what changed."),
        ("service", "service", "Install, inspect or remove the systemd user service."),
        ("config", "config", "Show the config, and where each value comes from."),
        ("doctor", "doctor", "Check the setup and suggest fixes."),
        ("herald", "clew_daemon.herald.command", "Serve metrics, send traces and messages."),
        ("metrics", "clew_daemon.herald.command", "Print the metrics once."),
        ("demo", "demo", "Show the main job on a sample goal; it needs no LLM."),
    ],
    "The record": [
        ("backup", "backup", "Copy the ledger to a file, and verify the copy."),
        ("restore", "backup", "Replace the ledger with a backup, while no daemon runs."),
        ("verify", "verify", "Replay the ledger and check it."),
        ("playbook", "playbook:playbook", "Manage the strategies learned across goals."),
    ],
}
"""The commands by what they are for, most used first."""

COMMANDS = [LazyCommand(*one, section) for section, listed in SECTIONS.items() for one in listed]


GIT_S = 5.0


def version_line() -> str:
    """Return the line of `clew --version`."""
    commit = _commit()
    return f"clew {VERSION} ({commit})" if commit else f"clew {VERSION}"


def _commit() -> str:
    """Return the commit that this clew was built from, or is a checkout of; "" where neither is known."""
    package = Path(clew_daemon.__file__).parent
    if (package / "commit").exists():
        return (package / "commit").read_text().strip()
    clone = package.parents[1]
    if not (clone / ".git").exists():
        return ""
    command = ["git", "-C", str(clone), "rev-parse", "--short=7", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_S)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        print(version_line())
        context.exit()


@click.group(
    "clew",
    cls=CommandGroup,
    commands=COMMANDS,
    invoke_without_command=True,
    help="Supervise LLM agents: record every step, restart at the same one, refuse loops.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no daemon is running.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Put everything under this folder (also: CLEW_HOME).",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version.",
)
@click.pass_context
def clew(context: click.Context, home: Path | None) -> None:
    """Make the instance of clew that the command works on."""
    context.obj = Instance.of(home, os.environ)
    if context.invoked_subcommand is None:
        print(context.get_help())
