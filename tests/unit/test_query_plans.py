"""No query of the daemon's hot path or of the command line walks the record: the plans that SQLite makes say so."""

import re

import apsw
import pytest

from clew_shared.ledger import schema

ONE_ROW_A_GOAL = {"heads", "purged", "snapshots", "outlines", "h", "p", "o"}
"""Tables that may be walked: they grow with goals, a row each, not with what goals do."""

WALKS_BY_NATURE = {
    "EVENTS_WITH_OUTPUTS": "verify reads every event",
    "STRAY_OUTPUT": "verify looks at every output",
    "PURGED_RANGES": "verify reads which numbers are gone",
    "PURGED_COUNTS": "verify holds them against what was purged",
}
QUERIES = {
    name: sql
    for name, sql in vars(schema).items()
    if isinstance(sql, str) and not name.startswith("_") and sql.lstrip().startswith("SELECT")
}
INDEXES = {
    "EVENTS_OF_GOAL": "events_of_goal",
    "TIP_BEFORE": "events_of_goal",
    "ENDS": "events_of_goal",
    "LARGE_OUTPUTS": "events_of_goal",
    "PLACE": "places",
    "LOOPS": "loops",
    "LOOPS_OF_GOAL": "loops_of_goal",
    "OUTLINES": "outlines_accepted",
}


@pytest.fixture(scope="module")
def plan():
    con = apsw.Connection(":memory:")
    for script in schema.MIGRATIONS:
        con.execute(script)

    def explained(sql):
        places = max([sql.count("?"), *map(int, re.findall(r"\?(\d)", sql))])
        count = int(max(re.findall(r"\?(\d)", sql))) if "?1" in sql else places
        return [row[3] for row in con.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * count)]

    return explained


@pytest.mark.parametrize("name", QUERIES)
def test_no_query_walks_a_table_that_grows_with_what_goals_do(plan, name):
    if name in WALKS_BY_NATURE:
        pytest.skip(WALKS_BY_NATURE[name])
    for step in plan(QUERIES[name]):
        walked = re.match(r"SCAN (\S+)(?! \(subquery)", step)
        if walked and walked[1] not in (
            "CONSTANT",
            "sqlite_schema",
            "(subquery-1)",
            "(subquery-3)",
        ):
            assert walked[1] in ONE_ROW_A_GOAL, step


@pytest.mark.parametrize(("name", "index"), INDEXES.items())
def test_what_is_asked_of_one_goal_or_of_its_end_is_found_by_an_index(plan, name, index):
    steps = plan(QUERIES[name])
    assert any(re.search(rf"USING (COVERING )?INDEX {index}\b", step) for step in steps), steps


@pytest.mark.parametrize(
    "name", ["EVENTS_OF_GOAL", "ENDS", "PLACE", "LOOPS", "LOOPS_OF_GOAL", "OUTLINES"]
)
def test_a_page_of_the_record_is_read_in_order_and_not_sorted(plan, name):
    assert not any("TEMP B-TREE" in step for step in plan(QUERIES[name]))
