"""A playbook that an agent owns, saves and loads; it needs no daemon.

Under a daemon, strategies are in the ledger and `learn` adds to them.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from clew_shared.playbook import bullet as shared
from clew_shared.playbook.playbook import LearnedPlaybook
from clew_worker.library.bullet import Bullet


class Playbook(LearnedPlaybook):
    """Strategies learned across goals, each with an id that is never reused."""

    bullet_type: ClassVar[type[shared.Bullet]] = Bullet

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the playbook as JSON, atomically; missing folders are created."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(self.to_dict(), file, ensure_ascii=False, indent=2)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            Path(partial).replace(target)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return a saved playbook; OSError if the file cannot be read, ValueError if it is not a playbook."""
        text = Path(path).read_text(encoding="utf-8")
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{path} is not a playbook: {error}") from error
        if not isinstance(data, Mapping):
            raise ValueError(f"{path} is not a playbook: a JSON object is needed")  # noqa: TRY004 (what a file holds is a value)
        return cls.from_dict(data)
