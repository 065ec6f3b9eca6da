"""How a missing Python package is installed here: a command for the Python that clew runs on."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec


def pip(*words: str) -> str:
    """Return a command of pip for this Python, as it is typed into a shell."""
    if find_spec("pip") is None:  # an environment that uv has made
        return shlex.join(["uv", "pip", words[0], "--python", sys.executable, *words[1:]])
    return shlex.join([sys.executable, "-m", "pip", *words])
