"""The coding agents that clew knows, by their names in the config."""

from collections.abc import Mapping

from clew_worker.bridge.clis.cli import Cli
from clew_worker.bridge.clis.codex import Codex

CLIS: Mapping[str, Cli] = {"codex": Codex()}
