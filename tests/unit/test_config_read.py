"""Every config key has an effect: something outside of `clew_shared/config` reads it from its own table.

A key counts as read where the source has `NAME.key`, and NAME is what the table is called there.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from clew_shared.config import tables as _tables  # noqa: F401 - defines the tables
from clew_shared.config.agent_tables import (
    AgentSettings,
    CliAgentSettings,
    CommandAgentSettings,
    LlmAgentSettings,
    RunbookAgentSettings,
)
from clew_shared.config.context_tables import ContextSettings, ModelProfile, Rung
from clew_shared.config.settings import Settings
from clew_shared.config.values import Table

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "shared" / "clew_shared" / "config"

AGENT = {"agent", "_agent", "traits"}
HELD_AS = {
    LlmAgentSettings: AGENT,
    RunbookAgentSettings: AGENT,
    CommandAgentSettings: AGENT,
    CliAgentSettings: AGENT,
    AgentSettings: {"agents"},
    Rung: {"rung"},
    "paths": {"places", "_places"},
    "restart": {"numbers", "restart"},
    "loops": {"loops", "thresholds", "own"},
    "attempts": {"attempts", "limits"},
    "snapshots": {"snapshots", "limits"},
    "playbook": {"playbook", "settings"},
    "log": {"log", "settings"},
    "sandbox": {"sandbox", "box"},
    "web": {"web", "settings"},
}
"""What a table is called where it is read, by its class or its key in Settings; otherwise only by that key."""

READ_BY_CONFIG = {
    ("AgentSettings", "default"): "resolve",
    ("AttemptSettings", "iterations"): "profiled_attempts",
    ("AttemptSettings", "ladder"): "profiled_attempts",
    ("CliAgentSettings", "program"): "looked_for",
    ("LedgerSettings", "url"): "located",
    ("ContextSettings", "models"): "profiled_settings",
    ("ModelProfile", "window"): "profiled_settings",
    ("ModelProfile", "attempts"): "profiled_attempts",
    ("ModelProfile", "iterations"): "profiled_attempts",
    ("ModelProfile", "ladder"): "profiled_attempts",
}
"""Keys that a function of the config reads, and the function, which is called outside of it."""


def sources():
    roots = (ROOT / part for part in ("daemon", "worker", "shared"))
    return [p for root in roots for p in sorted(root.rglob("*.py")) if CONFIG not in p.parents]


def reads(text):
    """Return each attribute that a source reads, with the last name of what it is read from."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            of = node.value
            if isinstance(of, ast.Call):
                of = of.func
            yield node.attr, getattr(of, "attr", getattr(of, "id", ""))
        elif isinstance(node, ast.Name):
            yield node.id, ""


@cache
def all_reads():
    found = defaultdict(set)
    for path in sources():
        for attribute, of in reads(path.read_text()):
            found[attribute].add(of)
    return found


def subclasses(table):
    for one in table.__subclasses__():
        yield one
        yield from subclasses(one)


TABLES = sorted(set(subclasses(Table)) - {Settings}, key=lambda table: table.__name__)


def names_of(table):
    keys = {field.annotation: key for key, field in Settings.model_fields.items()}
    if table is ModelProfile:
        return {"context"} | AGENT  # its values take the place of those
    key = keys.get(table, table)
    return HELD_AS.get(table) or HELD_AS.get(key) or ({key} if isinstance(key, str) else {"own"})


def unread(table, found):
    names = names_of(table)
    return [
        key
        for key in table.model_fields
        if not (names & found.get(key, set()))
        and READ_BY_CONFIG.get((table.__name__, key)) not in found
    ]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_key_of_a_table_is_read(table):
    assert unread(table, all_reads()) == []


@pytest.mark.parametrize("table", Settings.model_fields)
def test_every_table_is_read(table):
    assert all_reads()[table]


def test_a_key_that_nothing_reads_is_found():
    without = {key: names for key, names in all_reads().items() if key != "recent_actions"}
    assert unread(ContextSettings, without) == ["recent_actions"]
    elsewhere = {**all_reads(), "recent_actions": {"other"}}
    assert unread(ContextSettings, elsewhere) == ["recent_actions"]
