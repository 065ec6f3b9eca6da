"""What the relay imports: it runs in a coding agent's cell, where there is nothing but the standard library."""

import ast
import sys
from pathlib import Path

RELAY = Path(__file__).parents[2] / "worker/clew_worker/bridge/relay.py"


def test_the_relay_needs_nothing_but_the_standard_library():
    nodes = list(ast.walk(ast.parse(RELAY.read_text())))
    wanted = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
    wanted |= {"." * n.level + (n.module or "") for n in nodes if isinstance(n, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in wanted} <= sys.stdlib_module_names
