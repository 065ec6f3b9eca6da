"""Shell completion: print or install the script, and answer what the script asks.

The candidates come from the declarations of the commands; the scripts are click's.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew_daemon.reading.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.decorators import FC

VARIABLE = "_CLEW_COMPLETE"
_SCRIPTS = {
    "bash": (".bash_completions/clew.sh", ".bashrc", "source '{script}'"),
    "zsh": (".zfunc/_clew", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    "fish": (".config/fish/completions/clew.fish", "", ""),
}
"""For each shell: the place of its script, its start-up file, and the line that this file needs."""


def answer_shell(command: click.Command) -> int | None:
    """Answer a shell that asks through the environment; return the exit code, None if no shell asks."""
    asked = os.environ.get(VARIABLE)
    if not asked:
        return None
    from click.shell_completion import shell_complete

    return shell_complete(command, {}, "clew", VARIABLE, asked)


def _script(command: click.Command) -> tuple[str, str]:
    """Return this user's shell and the script for it."""
    from click.shell_completion import get_completion_class

    shell = Path(os.environ.get("SHELL", "bash")).name
    if shell not in _SCRIPTS or (kind := get_completion_class(shell)) is None:
        known = ", ".join(_SCRIPTS)
        raise CliError(f"there is no completion for {shell!r} ($SHELL), only for {known}")
    return shell, kind(command, {}, "clew", VARIABLE).source()


def _show(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        print(_script(context.command)[1])
        context.exit()


def _install(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    shell, script = _script(context.command)
    place, start_up, line = _SCRIPTS[shell]
    path = Path.home() / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script, encoding="utf-8")
    if start_up:
        _ensure_line(Path.home() / start_up, line.format(script=path))
    print(f"completion for {shell} is in {path}; it takes effect in new shells")
    context.exit()


def _ensure_line(file: Path, line: str) -> None:
    """Append a line to a file unless the file has it already."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if line not in text.splitlines():
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"{'' if text.endswith(chr(10)) or not text else chr(10)}{line}\n")


def _option(
    name: str, act: Callable[[click.Context, click.Parameter, bool], None], summary: str
) -> Callable[[FC], FC]:
    return click.option(
        name, is_flag=True, is_eager=True, expose_value=False, callback=act, help=summary
    )


install_completion = _option("--install-completion", _install, "Install completion for this shell.")
show_completion = _option("--show-completion", _show, "Print the completion for this shell.")
