"""An inbox on a real folder with real inotify events."""

from pathlib import Path

import pytest
from inbox_taker import Daemon


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "inbox"


@pytest.fixture
def daemon(folder: Path) -> Daemon:
    return Daemon(folder)
