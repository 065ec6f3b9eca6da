"""Coding agents started with all their own tools on, without questions and sandbox, and what they offer not looked at.

As if a user's `args`, a new version or a fault of the CLI had undone what clew tells it: only the kernel is left.
"""

import json
from dataclasses import replace

from clew_worker.bridge.clis import CLIS
from clew_worker.bridge.clis.cli import Cli

CODEX = {
    'sandbox_mode = "read-only"': 'sandbox_mode = "danger-full-access"',
    'web_search = "disabled"': 'web_search = "live"',
    "[agents]\nenabled = false": "[agents]\nenabled = true",
    " = false": " = true",
}
CLAUDE = {"dontAsk": "bypassPermissions", "--disable-slash-commands": "--verbose"}
GUARDS = ("--tools", "--allowedTools")
"""Options with a value."""


def of_codex(launch):
    files = dict(launch.files)
    for guarded, open_ in CODEX.items():
        files[".codex/config.toml"] = files[".codex/config.toml"].replace(guarded, open_)
    return replace(launch, files=files)


def of_claude(launch):
    argv = [CLAUDE.get(word, word) for word in launch.argv]
    for option in GUARDS:
        at = argv.index(option)
        del argv[at : at + 2]
    return replace(launch, argv=tuple(argv), env={**launch.env, "IS_SANDBOX": "1"})


def of_opencode(launch):
    config = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])
    config |= {"tools": {"*": True}, "permission": {"*": "allow"}}
    env = {**launch.env, "OPENCODE_CONFIG_CONTENT": json.dumps(config)}
    argv = (*(word for word in launch.argv if word != "--pure"), "--auto")
    return replace(launch, argv=argv, env=env)


def unguard():
    """Change how the CLIs are started by this process and those that it forks."""
    for name, change in (("codex", of_codex), ("claude", of_claude), ("opencode", of_opencode)):

        def launch(*args, _plain=CLIS[name].launch, _change=change):
            return _change(_plain(*args))

        CLIS[name].launch = staticmethod(launch)
    Cli.unexpected = lambda _: ()
