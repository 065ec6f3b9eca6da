"""Decides which paths are no part of the world: [loops] ignore."""

import fnmatch
import re


def _matcher(globs: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(fnmatch.translate, globs))) if globs else None


class Ignored:
    """Globs of names, or with a `/` in them of paths from the workspace on."""

    def __init__(self, globs: tuple[str, ...]) -> None:
        bare = [one.rstrip("/") for one in globs]
        names = [one for one in bare if "/" not in one]
        self._plain = frozenset(one for one in names if not set(one) & set("*?["))
        self._names = _matcher([one for one in names if one not in self._plain])
        self._paths = _matcher([one for one in bare if "/" in one])

    def covers(self, folder: str, name: str) -> bool:
        """Return whether `name` in `folder` is ignored; `folder` is "" or a path that ends with a slash."""
        if name in self._plain or (self._names is not None and self._names.match(name)):
            return True
        return self._paths is not None and self._paths.match(folder + name) is not None
