"""The coding agents that clew knows, by their names in the config."""

from clew_worker.bridge.clis.claude import Claude
from clew_worker.bridge.clis.cli import Cli
from clew_worker.bridge.clis.codex import Codex
from clew_worker.bridge.clis.opencode import Opencode

CLIS: dict[str, type[Cli]] = {cli.name: cli for cli in (Codex, Claude, Opencode)}
