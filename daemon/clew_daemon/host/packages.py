"""How a missing Python package is installed here: a command for the Python that clew runs on."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec

DISTRIBUTIONS = {
    "google": "protobuf",
    "markdown_it": "markdown-it-py",
    "yaml": "PyYAML",
}
"""The distributions of modules that have another name."""


def install(*modules: str) -> str:
    """Return the command that installs the packages of these modules, in the versions that clew needs."""
    wanted = {name_in(one): one for one in requirements()}
    names = [DISTRIBUTIONS.get(module, module) for module in modules]
    return pip("install", *(wanted.get(name_in(name), name) for name in names))


def pip(*words: str) -> str:
    """Return a command of pip for this Python, as it is typed into a shell."""
    if find_spec("pip") is None:  # an environment that uv has made
        return shlex.join(["uv", "pip", words[0], "--python", sys.executable, *words[1:]])
    return shlex.join([sys.executable, "-m", "pip", *words])


def requirements() -> list[str]:
    """Return what clew's own metadata requires; [] where clew is not installed as a package."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        found = requires("clew") or []
    except PackageNotFoundError:
        return []
    return [one for one in found if ";" not in one]


def name_in(requirement: str) -> str:
    """Return the name in a requirement, in the one form in which names are compared."""
    end = next((at for at, c in enumerate(requirement) if c in "<>=!~[ ("), None)
    return requirement[:end].lower().replace("_", "-")
