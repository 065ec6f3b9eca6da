"""The worker: agents that think and propose, the executor that acts, and the agents' library.

It decides nothing about loops and records nothing durable; that is `clew_daemon`, which it never imports. The library
is loaded when one of its names is first used, so that importing the package is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew_worker.library import *  # noqa: F403 - its `__all__` is the list of public names


def __getattr__(name: str) -> Any:
    """Load a public name of the library and keep it."""
    if (
        not name[:1].isupper() or name not in __dir__()
    ):  # the rest are modules: not worth its import
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module("clew_worker.library"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module("clew_worker.library").__all__})
