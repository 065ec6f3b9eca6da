"""How the source is built: which module imports which. The layers are in `pyproject.toml` (`lint-imports`)."""

import sys
from graphlib import TopologicalSorter

import grimp
import pytest


@pytest.fixture(scope="module")
def graph():
    """Every import: at the top of a module, inside its functions, and under TYPE_CHECKING."""
    ours = ("clew_shared", "clew_worker", "clew_daemon")
    return grimp.build_graph(*ours, include_external_packages=True, cache_dir=None)


def test_the_relay_needs_nothing_but_the_standard_library(graph):
    imported = graph.find_modules_directly_imported_by("clew_worker.bridge.relay")
    assert imported <= sys.stdlib_module_names


def test_no_modules_import_each_other_in_a_cycle(graph):
    edges = {one: graph.find_modules_directly_imported_by(one) for one in graph.modules}
    TopologicalSorter(edges).prepare()  # CycleError names them
