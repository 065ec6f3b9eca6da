"""What the long runs share: the harness of the process tests, and modules beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode has no path of its own
sys.path.insert(0, str(Path(__file__).parents[1] / "process"))
sys.path.insert(0, str(Path(__file__).parents[1] / "chaos"))
sys.path.insert(0, str(Path(__file__).parents[1] / "simulation"))

from harness import clew, make_clew

__all__ = ["clew", "make_clew"]
