"""The coding agents that clew knows, by their names in the config."""

from clew_worker.bridge.clis.claude import CLAUDE
from clew_worker.bridge.clis.codex import CODEX
from clew_worker.bridge.clis.opencode import OPENCODE

CLIS = {cli.name: cli for cli in (CODEX, CLAUDE, OPENCODE)}
