"""What the tests of attacks share: the harness of the process tests, and modules beside them."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "process")]  # importlib mode has no path of its own

from harness import clew, make_clew

__all__ = ["clew", "make_clew"]
