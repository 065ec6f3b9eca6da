"""The list of commands with a line about each, and the options of `clew` itself.

This module imports no command; `LazyCommand` says which module each one is in.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from clew_daemon.cli.lazy import CommandGroup, LazyCommand
from clew_daemon.reading.instance import Instance

SECTIONS = {
    "Goals": [
        ("submit", "submit.command:submit", "Add goals: files, or the text of a goal."),
        ("status", "status", "Show all goals, or one goal's tree and progress."),
        ("watch", "watch.command:command", "Show what goals do, as it happens."),
        ("top", "clew_daemon.top.command:top", "Show goals live, and steer them by keys."),
        ("web", "clew_daemon.web.command:web", "Show goals in the browser, and act on them there."),
    ],
    "What a goal did": [
        ("history", "history", "Show a goal's actions, oldest first."),
        ("show", "show", "Show one action in full: arguments, verdict, output."),
        ("diff", "diff.command:diff", "Show what a goal, or a subtask, changed in its workspace."),
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
        ("doctor", "doctor.command:doctor", "Check the setup and suggest fixes."),
        ("herald", "clew_daemon.herald.command", "Serve metrics, send traces and messages."),
        ("metrics", "clew_daemon.herald.command", "Print the metrics once."),
        ("demo", "demo.command:demo", "Show the main job on a sample goal; it needs no LLM."),
    ],
    "The record": [
        ("backup", "backup", "Copy the ledger to a file, and verify the copy."),
        ("restore", "restore", "Replace the ledger with a backup, while no daemon runs."),
        ("verify", "verify", "Replay the ledger and check it."),
        ("playbook", "playbook:playbook", "Manage the strategies learned across goals."),
    ],
}
"""The commands by what they are for, most used first."""

COMMANDS = [LazyCommand(*one, section) for section, listed in SECTIONS.items() for one in listed]


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from clew_daemon.cli.version import version_line

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
