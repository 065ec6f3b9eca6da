"""Whatever comes in from outside is taken, or refused in words: config, environment, playbooks, packets, records."""

import json
import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from clew_daemon.cli import run
from clew_daemon.learning.deltas import imported
from clew_daemon.session.worker import LINE_CHARS, LINES_MAX, WorkerOutput
from clew_shared.config.settings import SettingsError, load
from clew_shared.config.tables import Settings

TEXT = st.text(max_size=20)
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.just("\ud800"), st.just(10**400)
)
JSON = st.recursive(
    ODD,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)
DEEP = "[" * 100_000

# -- config and environment

TABLES = sorted(Settings.model_fields)
FIELDS = (getattr(one.annotation, "model_fields", {}) for one in Settings.model_fields.values())
KEYS = sorted({key for fields in FIELDS for key in fields})
NAMES = st.one_of(st.sampled_from(TABLES), st.sampled_from(KEYS), TEXT)
VALUES = st.one_of(
    st.sampled_from(["1", "-1", "1e999", "nan", "inf", "true", '""', '"x"', "[]", "[1]", "{}"]),
    st.sampled_from(["{a=1}", "1979-05-27", "99999999999999999999", "'''", '"\\ud800"', '"\\u0000"']),
    st.text(max_size=10),
)  # fmt: skip
LINES = st.one_of(
    st.builds("[{}]".format, NAMES),
    st.builds("[[{}]]".format, NAMES),
    st.builds("[{}.{}]".format, NAMES, NAMES),
    st.builds("{} = {}".format, NAMES, VALUES),
    st.builds("{}.{} = {}".format, NAMES, NAMES, VALUES),
)


@settings(deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(LINES, max_size=12).map("\n".join)))
@example("a = " + DEEP)
@example("a." * 500 + "b = 1")
def test_any_text_is_a_config_or_faults_with_their_places(text):
    faults = (("none", "none"),)
    try:
        load(text, {}, "config.toml")
    except SettingsError as error:
        faults = error.faults
    assert faults
    assert all(place and message for place, message in faults)


# -- playbooks

OF_BULLETS = """id section content helpful harmful neutral created_at updated_at source_goal expires_at archived
sources bullets version"""
BULLET_KEYS = st.sampled_from(OF_BULLETS.split())
BULLETS = st.lists(st.dictionaries(BULLET_KEYS, JSON, max_size=8), max_size=3)


@settings(deadline=None)
@given(
    st.one_of(
        st.text(max_size=200),
        JSON.map(json.dumps),
        BULLETS.map(json.dumps),
        BULLETS.map(lambda some: json.dumps({"bullets": some, "version": 1})),
    )
)
@example(DEEP)
@example('{"a":' * 50_000)
@example('[{"section": "s", "content": "c"}]')
@example('{"bullets": [{"id": 7, "section": "s", "content": "c"}]}')
def test_any_text_is_a_playbook_or_a_fault_in_words(text):
    try:
        bullets = imported(text)
    except ValueError as error:
        fault = str(error)
    else:
        fault = "none"
        assert all(isinstance(b.id, str) and b.content for b in bullets)
    assert fault


# -- what agents print


@settings(deadline=None)
@given(st.binary(max_size=3_000), st.lists(st.integers(1, 700), min_size=1, max_size=20))
def test_what_an_agent_prints_is_the_same_lines_however_it_comes(data, sizes):
    def lines(pieces):
        said = []
        printed = WorkerOutput(said.append)
        for piece in pieces:
            printed.take(piece)
        printed.take(b"", last=True)
        return said, printed.tail

    pieces, rest = [], data
    for size in sizes:
        pieces, rest = [*pieces, rest[:size]], rest[size:]
    said, tail = lines([*pieces, rest])
    assert (said, tail) == lines([data])
    assert len(said) <= LINES_MAX
    assert all(len(line) <= LINE_CHARS for line in said)


# -- the command line

COMMANDS = """status logs history loops context feedback unblock pause resume cancel retry reload playbook list show
remove prune export import verify config --check --json -n --help --home -- g-1 -1 99999999999999999999 /dev/null"""
WORDS = st.one_of(st.sampled_from((*COMMANDS.split(), "", "\x1b[2J", "\udcff")), TEXT)
STARTED = ("run", "demo", "service", "doctor", "submit", "backup", "restore")


@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(WORDS, max_size=5))
def test_any_arguments_end_in_a_code_and_no_traceback(capsys, words):
    if set(words) & set(STARTED) or "-f" in words or "--follow" in words:
        return
    with tempfile.TemporaryDirectory() as home:
        before = dict(os.environ)
        code = run(["--home", str(Path(home) / "home"), *words])
        assert dict(os.environ) == before
    said = capsys.readouterr()
    assert code in (0, 1, 2, 3)
    assert "Traceback" not in said.err
    assert "\x1b" not in said.err
