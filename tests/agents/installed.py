"""The coding agents that `make agents` has installed; where one is required, a missing one fails a test."""

import os
import platform
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AGENTS = Path(os.environ.get("CLEW_TEST_AGENTS", ROOT / ".agents"))
REQUIRED = frozenset(os.environ.get("CLEW_AGENTS_REQUIRED", "").split(","))
NAMES = (
    "codex",
    pytest.param("claude", marks=pytest.mark.long),
    pytest.param("opencode", marks=pytest.mark.long),
)
"""For `parametrize`: Codex takes seconds, the others are not part of `make test`."""

BASE = {"codex": "/v1", "claude": "", "opencode": "/v1"}
"""What follows the address of an endpoint in `base_url`."""


def installed(cli: str) -> Path:
    """The program of a CLI as npm installs it, mostly a script; skips the test where it is not installed."""
    program = AGENTS / cli / "node_modules" / ".bin" / cli
    if not program.exists():
        missing = f"{cli} is not installed in {AGENTS}: make agent-{cli}"
        pytest.fail(missing) if cli in REQUIRED else pytest.skip(missing)
    return program


def native(cli: str) -> Path:
    """The program itself, which the script starts."""
    machine = platform.machine()
    npm = {"x86_64": "x64", "aarch64": "arm64"}[machine]
    places = {
        "codex": f"@openai/codex-linux-{npm}/vendor/{machine}-unknown-linux-musl/bin/codex",
        "claude": f"@anthropic-ai/claude-code-linux-{npm}/claude",
        "opencode": f"opencode-linux-{npm}/bin/opencode",
    }
    return installed(cli).parents[1] / places[cli]
