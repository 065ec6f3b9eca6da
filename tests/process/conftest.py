"""What tests of the whole daemon share; `harness.py` says how it works."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode has no path of its own

from harness import clew, make_clew

__all__ = ["clew", "make_clew"]
