"""What the simulator's tests share: its modules are found beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode has no path of its own
