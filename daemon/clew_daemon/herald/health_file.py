"""`herald.json` in the state folder: how the herald does, for `clew doctor`. It holds no secret."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from clew_daemon.herald.spools import ChannelHealth


class HealthFile:
    """The file, replaced when something in it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = ""

    def write(self, channels: Sequence[ChannelHealth]) -> None:
        """Write how each channel does; raises OSError."""
        views = [{k: v for k, v in asdict(one).items() if k != "channel"} for one in channels]
        text = json.dumps({"pid": os.getpid(), "channels": views})
        if text == self._written:
            return
        part = self._path.with_name(f".{self._path.name}.tmp")
        part.write_text(text)
        part.chmod(0o600)
        part.replace(self._path)
        self._written = text
