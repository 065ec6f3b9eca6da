"""An inbox on a real folder with real inotify events."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode has no path of its own

from inbox_taker import Daemon


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "inbox"


@pytest.fixture
def daemon(folder: Path) -> Daemon:
    return Daemon(folder)
