"""The list of commands with a line about each, each imported when it is called, and the options of `clew` itself."""

import os
import subprocess
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from subprocess import DEVNULL
from typing import cast

import click

import clew_daemon
from clew_daemon import VERSION
from clew_daemon.cli.parameters import flag, option
from clew_daemon.reading.instance import Instance

SUMMARY_CHARS = 1_000
GIT_S = 5.0


class LazyCommand(click.Command):
    """A stand-in for a command whose `target`, a module below `cli.commands` or elsewhere, is not imported yet."""

    def __init__(self, name: str, target: str, summary: str, section: str) -> None:
        super().__init__(name, short_help=summary)
        self.target, self.section = target, section

    def imported(self) -> click.Command:
        """Import and return the command itself."""
        module, _, attribute = self.target.partition(":")
        within = "" if module.startswith("clew_daemon.") else "clew_daemon.cli.commands."
        found = getattr(import_module(within + module), attribute or str(self.name))
        return cast("click.Command", found)


class CommandGroup(click.Group):
    """A group of commands, listed in the order in which they were added, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """List commands with their whole summaries; those of the further sections by name, so that all fit a screen."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, one in self.commands.items():
            row = (name, one.get_short_help_str(SUMMARY_CHARS))
            sections.setdefault(getattr(one, "section", "Commands"), []).append(row)
        (title, rows), *rest = sections.items()
        with formatter.section(title):
            formatter.write_dl(rows)
        if rest:
            named = [(title, " ".join(name for name, _ in rows)) for title, rows in rest]
            with formatter.section("More, each with --help"):
                formatter.write_dl(named)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.imported() if isinstance(command, LazyCommand) else command, rest


SECTIONS = {
    "Most used": [
        ("submit", "submit", "Add goals: files, or the text of a goal."),
        ("status", "goals", "Show all goals, or one goal's tree and progress."),
        ("watch", "watch:command", "Show what goals do, as it happens."),
        ("top", "clew_daemon.top.command:top", "Show goals live, and steer them by keys."),
        ("continue", "steering:go_on", "Continue goals, whatever stopped them."),
        ("feedback", "steering", "Send the agent a message; this resumes a blocked goal."),
        ("history", "goals", "Show a goal's actions, oldest first."),
        ("diff", "undo", "Show what a goal, or a subtask, changed in its workspace."),
        ("undo", "undo", "Restore what a goal, or a subtask, changed in its workspace."),
        ("run", "service", "Run the daemon in the foreground, as systemd does."),
        ("doctor", "doctor", "Check the setup and suggest fixes."),
        ("demo", "demo", "Show the main job on a sample goal; it needs no LLM."),
    ],
    "what a goal did": [
        ("show", "goals", "Show one action in full: arguments, verdict, output."),
        ("proof", "evidence", "Show what a goal's label says, and accept what it asks about."),
        ("loops", "evidence", "Show the loops that were detected, with the evidence."),
        ("context", "goals", "Show exactly what the agent's LLM would be shown now."),
        ("logs", "goals", "Show what the daemon did and why, line by line (-f: as it happens)."),
    ],
    "steering": [
        ("pause", "steering", "Stop goals until `clew continue`, after the running action."),
        ("cancel", "steering", "Cancel goals (`continue` reopens them)."),
        ("edit", "steering", "Change a goal's text, checks or limits in your editor."),
        ("unblock", "steering", "Allow a refused action again (see `clew status GOAL`)."),
        ("rm", "steering", "Take goals that have ended out of the lists."),
        ("resume", "steering", "As `continue`, for paused, waiting or blocked goals only."),
        ("retry", "steering", "As `continue`, for failed, cancelled or blocked goals only."),
    ],
    "the daemon": [
        ("start", "service", "Start the systemd user service."),
        ("stop", "service", "Stop the systemd user service."),
        ("restart", "service", "Restart the systemd user service."),
        ("reload", "service", "Read the config again, and show what changed."),
        ("service", "service", "Install, inspect or remove the systemd user service."),
        ("config", "service", "Show the config, and where each value comes from."),
    ],
    "views": [
        ("web", "clew_daemon.web.command:web", "Show goals in the browser, and act on them there."),
        ("herald", "clew_daemon.herald.command", "Serve metrics, send traces and messages."),
        ("metrics", "clew_daemon.herald.command", "Print the metrics once."),
    ],
    "the record": [
        ("backup", "backup", "Copy the ledger to a file, and verify the copy."),
        ("restore", "backup", "Replace the ledger with a backup, while no daemon runs."),
        ("verify", "verify", "Replay the ledger and check it."),
        ("playbook", "playbook:playbook", "Manage the strategies learned across goals."),
    ],
}
"""The commands by what they are for, most used first; the help shows the lines of the first section alone."""

COMMANDS = [LazyCommand(*one, section) for section, listed in SECTIONS.items() for one in listed]


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version, with the commit that this clew was built from, or is a checkout of."""
    if not wanted or context.resilient_parsing:
        return
    package = Path(clew_daemon.__file__).parent
    clone, built, commit = package.parents[1], package / "commit", ""
    if built.exists():
        commit = built.read_text().strip()
    elif (clone / ".git").exists():
        command = ["git", "-C", str(clone), "rev-parse", "--short=7", "HEAD"]
        with suppress(OSError, subprocess.SubprocessError):
            commit = subprocess.check_output(command, text=True, timeout=GIT_S, stderr=DEVNULL)
    print(f"clew {VERSION}{f' ({commit.strip()})' if commit else ''}")
    context.exit()


HOME_HELP = "Put everything under this folder (also: CLEW_HOME)."


@click.group(
    "clew",
    cls=CommandGroup,
    commands=COMMANDS,
    invoke_without_command=True,
    help="Supervise LLM agents: record every step, restart at the same one, refuse loops.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no daemon is running.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@option("--home", "DIR", HOME_HELP, type=click.Path(path_type=Path))
@flag("--version", "Show the version.", is_eager=True, expose_value=False, callback=_version)
@click.pass_context
def clew(context: click.Context, home: Path | None) -> None:
    """Make the instance of clew that the command works on."""
    context.obj = Instance.of(home, os.environ)
    if context.invoked_subcommand is None:
        print(context.get_help())
