"""The net under clew: a test for each promise of the contract with the outside, a file for each of its sections.

They use only what can be seen from outside: files, the command line, the control socket, the worker protocol.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "process"))

from harness import clew, make_clew

__all__ = ["clew", "make_clew"]
