"""How the source is built: which module imports which. The layers are in `pyproject.toml` (`lint-imports`)."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "shared/clew_shared", ROOT / "worker/clew_worker", ROOT / "daemon/clew_daemon"]


def modules():
    """Every module by its dotted name, with its file."""
    found = {}
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(node, name, path):
    """The dotted names that an import statement may mean, the longest first."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        parts = name.split(".")[: None if path.name == "__init__.py" else -1]
        parts = parts[: len(parts) - node.level + 1]
        base = ".".join([*parts, *([node.module] if node.module else [])])
    return [f"{base}.{alias.name}" for alias in node.names]


def graph(sources):
    """Which modules each one imports: at the top, inside functions, and under TYPE_CHECKING."""
    edges = {name: set() for name in sources}
    for name, (path, text) in sources.items():
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for wanted in imported(node, name, path):
                edges[name] |= {known(wanted, sources)} - {"", name}
    return edges


def known(wanted, sources):
    """The module that a dotted name is in, "" for none of ours."""
    return wanted if wanted in sources or not wanted else known(wanted.rpartition(".")[0], sources)


def cycles(edges):
    """The groups of modules that import each other, by Tarjan's algorithm (1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges[node]:
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            group, stack[at:] = sorted(stack[at:]), []
            if len(group) > 1:
                found.append(group)

    for node in edges:
        if node not in index:
            visit(node)
    return found


def test_the_relay_needs_nothing_but_the_standard_library():
    path = modules()["clew_worker.bridge.relay"]
    tree = ast.parse(path.read_text())
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    tops = {one.partition(".")[0] for n in nodes for one in imported(n, "relay", path)}
    assert tops <= sys.stdlib_module_names


def test_no_modules_import_each_other_in_a_cycle():
    assert cycles(graph({n: (p, p.read_text()) for n, p in modules().items()})) == []


@pytest.mark.parametrize(
    "text",
    ["import p.b", "from p import b", "from . import b", "from .b import x", "from p.b import x"],
)
@pytest.mark.parametrize(
    "where", ["{}", "def f():\n    {}", "if TYPE_CHECKING:\n    {}", "try:\n    {}\nfinally: ..."]
)
def test_a_cycle_is_found_wherever_its_imports_are(text, where):
    a = (Path("p/a.py"), where.format(text))
    b = (Path("p/b.py"), "from p.a import y")
    c = (Path("p/c.py"), "import p.a, p.b, os")
    assert cycles(graph({"p.a": a, "p.b": b, "p.c": c})) == [["p.a", "p.b"]]
