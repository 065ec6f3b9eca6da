"""Which files can judge a goal's work: by name, by text, and those that no snapshot has (git, a home, tools)."""

import base64
import hashlib
import os
import subprocess
import sys

import pytest

from clew_shared.proof.judges import Patterns, bad_patterns, matcher
from clew_worker.executor.proof import tools
from clew_worker.executor.proof.look import Changes
from clew_worker.executor.proof.sources import (
    is_all_tests,
    is_data,
    judges,
    named_tests,
    signs,
    with_old_tests,
)
from clew_worker.executor.proof.sources import tests_lost as lost_tests

NOT_GIVEN = Patterns()
JUDGE = [
    *("tests/test_calc.py", "calc_test.go", "src/app.spec.ts", "conftest.py", "Makefile", "spec/calc_spec.rb"),
    *("golden/out.txt", ".github/workflows/ci.yml", "jest.config.js", "tox.ini", "run_tests.sh", "verify.py"),
    *("a/.venv/lib/python3.11/site-packages/_pytest/runner.py", "node_modules/jest-circus/build/run.js", "x.snap"),
    *("testutil.py", "support/asserts.py", ".mvn/maven.config", "go.work", "CMakePresets.json"),
    *("features/steps/add.py", "features/environment.py", "features/support/env.rb", "src/features/add.feature"),
    *("tasks.py", "checks/run.py", "oracle/add.py", "expected.json", "ci/lib/check_all.py", "scripts/lib/verify.py"),
    *("src/checks/run.sh", "src/expected.json", "src/snapshots/a.html", "app/spec/lib/add.rb", "app/spec/helper.rb"),
    *("src/app.test.ts", "src/__tests__/a.ts", "lib/tests/a.py", "app/features/support/env.rb", "app/pytest.ini"),
]  # fmt: skip
WORK = [
    *("src/calc.py", "README.md", "lib/net.c", "app/models.rb", "index.html", "docs/guide.md", "latest.py"),
    *("contest.py", "node_modules/left-pad/index.js", "greet.sh", "attest.go", "specification.md"),
    *("app/ci_client.py", "app/fixtures_store.py", "lib/assert_valid.js", "src/makefile_gen.py", "testimonials.py"),
    *("features/auth/login.ts", "src/features/support/ticket.tsx", "a/tasks.py"),
    *("src/oracle/client.py", "app/checks/urls.py", "lib/ci/client.rb", "pkg/spec/spec.go", "src/snapshots/store.ts"),
    *("internal/reference/parse.go", "src/expected.rs", "app/models/grade.rb", "src/validate.ts", "lib/verify.dart"),
    *("crates/a/src/check.rs", "app/health_check.py", "Sources/App/Verify.swift", "include/tl/expected.hpp"),
]  # fmt: skip


def test_a_changed_file_judges_by_its_name_and_other_files_are_the_work():
    assert [path for path in (*JUDGE, *WORK) if judges(path, b"a", b"b", NOT_GIVEN)] == JUDGE


MANIFESTS = [
    ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "true"}}', True),
    ("package.json", '{"dependencies": {}}', '{"dependencies": {"a": "1"}}', False),
    ("package.json", None, '{"name": "new", "version": "1"}', False),
    ("pyproject.toml", "[project]\nname='a'", "[project]\nname='a'\ndependencies=['b']", False),
    ("pyproject.toml", "", "[tool.pytest.ini_options]\naddopts='-k nothing'", True),
    ("Cargo.toml", "[package]\nname='a'", "[package]\nname='a'\n[dependencies]\nb='1'", False),
    ("Cargo.toml", "[lib]\nname='a'", "[lib]\nname='a'\ntest=false", True),
    ("go.mod", "module a\n", "module a\nrequire b v1\n", False),
    ("go.mod", "module a\n", "module a\nreplace b => ./c\n", True),
    ("setup.cfg", "[metadata]\nname=a", "[metadata]\nname=b", False),
    ("setup.cfg", "", "[tool:pytest]\naddopts=-x", True),
    ("pyproject.toml", "[a", "[b", True),
    ("pom.xml", "<skipTests/>\n", "<skipTests/>\n<skipTests/>\n", True),
]


@pytest.mark.parametrize(("name", "old", "new", "expected"), MANIFESTS)
def test_of_a_manifest_only_the_part_judges_that_says_how_things_run(name, old, new, expected):
    before, now = (text if text is None else text.encode() for text in (old, new))
    assert judges(name, before, now, NOT_GIVEN) is expected


FIXTURE = "@pytest.fixture\ndef c():\n    return 1\n\n"
SOURCES = {
    "def _b(): ...\n" + FIXTURE + "\ndef test_c(c):\n    assert c\n": True,
    "class A(unittest.TestCase):\n    def test_b(self):\n        self.assertTrue(b)": True,
    "def show_add():\n    assert add(2, 3) == 5\n": True,
    "def add(): ...\n\ndef test_add():\n    assert add()\n": False,
    "def test_connection(host):\n    assert host\n    return host.answers()\n": False,
    "def main():\n    assert sys.argv\n    print(1)\n": False,
    "def setup_logging(level):\n    assert level\n": False,
    "def require_text(x):\n    assert x, 'a text is needed'\n": False,
    "const add = (a, b) => a + b\ntest('add', () => assert.equal(add(2, 3), 5))": False,
    "const test = require('node:test')\ntest('add', () => assert.equal(add(2, 3), 5))": True,
    "export const add = 1\nif (import.meta.vitest) {\n  it('adds', () => expect(add).toBe(1))\n}": False,
}


@pytest.mark.parametrize("text", SOURCES)
def test_a_source_of_nothing_but_tests_is_one_whatever_its_name(text):
    path = "a.js" if "=>" in text else "a.py"
    assert is_all_tests(path, text.encode()) is SOURCES[text]


MADE_UP = """
from clew_shared.proof import runners

runners.RUNNERS += (
    runners.Runner(
        "zest pyzest", closing=r"^zest: (?P<words>.*)$", files="zest.toml *Zest.py",
        packages="pyzest", node="zest-*", signs="ZEST_ID",
    ),
)
from pathlib import Path
from clew_daemon.session.checks import TOOLS, Tool, tool_of
from clew_shared.proof.runners import Count, count
from clew_shared.proof.judges import is_judge
from clew_worker.executor.proof import sources, tools

assert count("zest: 3 passed, 1 failed") == Count(3, 1)
assert all(map(is_judge, ("a/zest.toml", "aZest.py", "node_modules/zest-run/x.js", "site-packages/pyzest/x.py")))
assert sources.shadows("pyzest.py") and sources.signs("a.py", b"", b"if getenv('ZEST_ID'):")
Path("e/bin").mkdir(parents=True), Path("e/bin/pyzest").touch()
assert [*tools.noted(Path(), ["e/"]).tools] == ["e/bin/pyzest"]
assert "zest" in TOOLS and tool_of("python3 -m pyzest") == Tool("python3", "pyzest")
"""


def test_a_runner_is_added_by_one_record(tmp_path):
    subprocess.run([sys.executable, "-c", MADE_UP], cwd=tmp_path, check=True)


def test_a_runners_own_config_names_files_of_tests():
    found = named_tests("pytest.ini", b"[pytest]\npython_files = check_*.py *.py\n")
    assert found == ["check_*.py"]
    assert named_tests("package.json", b'{"jest": {"testMatch": ["**/*.do.js"]}}') == ["*.do.js"]
    assert named_tests("setup.cfg", b"[") == []


def test_a_new_module_in_the_place_of_a_known_one_judges():
    new = ("json.py", "pytest.py", "pluggy/__init__.py")
    assert all(judges(path, None, b"", NOT_GIVEN) for path in new)
    assert not judges("calc/json.py/x/y.py", None, b"", NOT_GIVEN)


def test_patterns_add_to_what_judges_and_take_away():
    assert judges("tools/suite.sh", b"", b"x", Patterns(judges=("tools/*.sh",)))
    assert not judges("tests/a.py", b"", b"x", Patterns(ignore=("tests/**",)))


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.md", "docs/a.md", True),
        ("docs", "docs/a/b.md", True),
        ("docs/*.md", "docs/a/b.md", False),
        ("docs/**", "docs/a/b.md", True),
        ("**/fixtures/*", "a/b/fixtures/x", True),
        ("a?c", "abc", True),
        ("a.c", "abc", False),
    ],
)
def test_a_pattern_matches_as_in_gitignore(pattern, path, expected):
    assert matcher((pattern,))(path) is expected


def test_patterns_that_are_none_are_named():
    assert len(bad_patterns(["/etc", "~/x", "../a", "", "a/**"])) == 4


def test_tests_within_sources_are_seen():
    old = b"pub fn a() {}\n#[cfg(test)]\nmod tests {\n#[test]\nfn t() { assert_eq!(1, a()); }\n}\n"
    new = b"pub fn a() { 2 }\n#[cfg(test)]\nmod tests {}\n"
    assert with_old_tests("src/lib.rs", old, new).startswith(b"pub fn a() { 2 }")
    assert with_old_tests("src/lib.rs", old, old) is None
    assert lost_tests(old, new) == 2
    assert lost_tests(b">>> f(1)\n2\n", b">>> f(1)\n3\n") == 1
    guarded = b"pub fn a(n: i32) { assert!(n > 0) }\n"
    assert lost_tests(guarded + old, old) == 0  # the product's own
    assert lost_tests(b"/// assert_eq!(a(), 1);\n" + guarded, guarded) == 1


def rust(*names, expected=5):
    tests = "".join(
        f"    #[test]\n    fn {one}s() {{\n        assert_eq!({one}(2), {expected});\n    }}\n"
        for one in names
    )
    product = "".join(f"pub fn {one}(n: i32) -> i32 {{\n    n\n}}\n" for one in names)
    return f"{product}\n#[cfg(test)]\nmod tests {{\n    use super::*;\n{tests}}}\n"


DOCTEST = 'def add(a, b):\n    """Add.\n\n    >>> add(2, 3)\n    5\n    """\n    return a + b\n'
TWO = {"src/lib.rs": rust("add", "sub")}
MOVES = [
    # before, after, what is told
    ({"src/util.rs": rust("add")}, {"src/helpers.rs": rust("add")}, {}),
    ({"src/util.rs": rust("add")}, {"src/helpers.rs": rust("add", expected=6)}, {"within": ["src/util.rs"]}),
    (TWO, {"src/lib.rs": "mod a;\nmod b;\n", "src/a.rs": rust("add"), "src/b.rs": rust("sub")}, {}),
    (TWO, {"src/lib.rs": rust("add"), "src/b.rs": rust("sub")}, {}),
    # some have gone on the way, or the source has kept what they test
    (TWO, {"src/lib.rs": "mod a;\n", "src/a.rs": rust("add", "one")}, {"mixed": ["src/lib.rs"]}),
    (TWO, {"src/lib.rs": "pub fn add() {}\n", "src/a.rs": rust("add", "sub")}, {"mixed": ["src/lib.rs"]}),
    ({"calc.py": DOCTEST}, {"calc.py": "from sums import add\n", "sums.py": DOCTEST}, {}),
    ({"calc.py": DOCTEST}, {"calc.py": "", "sums.py": DOCTEST.replace("5", "-1")}, {"within": ["calc.py"]}),
    ({"calc.py": DOCTEST}, {"sums.md": DOCTEST}, {"within": ["calc.py"]}),
    ({"calc.py": DOCTEST}, {"calc.py": "add = max\n", "sums.py": DOCTEST}, {"within": ["calc.py"]}),
]  # fmt: skip


def test_tests_that_move_whole_to_another_source_are_not_lost():
    for before, after, expected in MOVES:
        paths = before.keys() | after.keys()
        changed = Changes({path: (before.get(path), after.get(path)) for path in paths})
        changed.sort(NOT_GIVEN, lambda text: None if text is None else text.encode())
        assert {kind: found for kind, found in changed.told.items() if found} == expected, after


@pytest.mark.parametrize(
    ("line", "watches", "odd"),
    [
        ("if 'PYTEST_CURRENT_TEST' in os.environ:", True, False),
        ("if 'pytest' in sys.modules:", True, False),
        ("if (process.env.NODE_ENV === 'test') {", True, False),
        ("expect.extend = () => true", True, False),
        ("open('tests/cases.json')", True, False),
        ("os._exit(0)", False, True),
        ("def latest(): return contest", False, False),
        ("assert value == 3", False, False),
    ],
)
def test_new_lines_that_look_at_how_they_are_run(line, watches, odd):
    found = signs("a.js", b"", line.encode())
    assert ("watches" in found, "odd" in found) == (watches, odd)
    assert not signs("a.js", line.encode(), line.encode())


PYTEST, READS = "import pytest\n", 'pub fn a() {\n    include_str!("../tests/a.txt");\n}\n'
RUN_IN_TESTS = (
    "#[cfg(test)]\nmod tests {\n    use super::*;\n\n    " + READS.replace("\n}", "\n    }") + "}\n"
)
SEEN = [
    ("CONTRIBUTING.md", f"```python\n{PYTEST}```\n", []),
    ("guide.rst", f">>> {PYTEST}", ["watches"]),  # a doctest
    ("a.rs", RUN_IN_TESTS, []),
    ("a.js", RUN_IN_TESTS, ["watches"]),
    ("a.rs", RUN_IN_TESTS + READS, ["watches"]),
    ("a.rs", "#[cfg(test)]\nmod tests {}\n" + READS, ["watches"]),
    ("gen.py", "with open('tests/a.json', 'w') as file:", ["odd"]),
    ("gen.py", "open('tests/a.json', 'r'), open('b.json', 'w')", ["watches"]),
    ("app.js", "if (process.env.NODE_ENV !== 'test') {\n  app.listen(80)\n}", ["odd"]),
]


def test_what_only_tests_run_or_may_be_honest_is_no_reason_to_refuse():
    assert [[*signs(path, b"", text.encode())] for path, text, _ in SEEN] == [
        kinds for *_, kinds in SEEN
    ]


def test_data_is_what_a_check_may_compare_with():
    assert is_data("data/cases.csv")
    assert not any(map(is_data, ("src/a.py", "README.md", "package-lock.json", "docs/x.csv")))


# -- what is in no snapshot


def git(folder, *args):
    command = ["git", "-c", "user.name=n", "-c", "user.email=e", *args]
    subprocess.run(command, cwd=folder, check=True)


GIT_CHANGES = {
    "a tag is moved": (["tag", "-f", "v1"], [".git/refs/tags/v1"]),
    "a tag is removed": (["tag", "-d", "v1"], [".git/refs/tags/v1"]),
    "a tag is moved and packed": (["update-ref", "refs/tags/v1", "HEAD"], [".git/refs/tags/v1"]),
    "a tag is packed": (["pack-refs", "--all"], []),
    "a tag is new": (["tag", "v2"], []),
    "a branch is new": (["checkout", "-q", "-b", "other"], []),
    "who commits is said": (["config", "user.name", "me"], []),
    "an alias is new": (["config", "alias.check", "!true"], [".git/config"]),
}


@pytest.mark.parametrize("what", GIT_CHANGES)
def test_of_a_repository_what_can_judge_is_compared(tmp_path, what):
    act, expected = GIT_CHANGES[what]
    git(tmp_path, "init", "-q")
    for number in range(2):
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", str(number))
    git(tmp_path, "tag", "v1", "HEAD~1")
    before = tools.git_settings(tmp_path)
    git(tmp_path, *act)
    if "packed" in what:
        git(tmp_path, "pack-refs", "--all")
    assert tools.changed_settings(before, tools.git_settings(tmp_path)) == expected


HIDDEN = (
    "[user] [core] a = x",
    '[user "]"] [core] hooksPath = evil',
    '[user "\\"] x"] [core] hooksPath = evil',
    "[user]\n[core\n",
    "[core]\nbare = a\\\n[user]\na = x",
    "[core]\nbare = 1\f[user]\na = x",
)


@pytest.mark.parametrize("text", HIDDEN)
def test_no_setting_of_git_passes_for_one_that_cannot_judge(text):
    now = {".git/config": base64.b64encode(text.encode()).decode()}
    assert tools.changed_settings({}, now) == [".git/config"]


TAGS_THAT_ARE_NONE = {
    "too many": lambda git: [(git / "refs/tags" / str(number)).mkdir() for number in range(1_000)],
    "a FIFO in place of the packed ones": lambda git: os.mkfifo(git / "packed-refs"),
    "many hooks that are empty": lambda git: (git / "hooks" / "a").touch(),
}


@pytest.mark.parametrize("what", TAGS_THAT_ARE_NONE)
def test_what_would_hide_a_moved_tag_or_a_hook_is_a_change(tmp_path, what):
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
    git(tmp_path, "tag", "v1")
    git(tmp_path, "pack-refs", "--all")
    (tmp_path / ".git" / "hooks").mkdir(exist_ok=True)
    before = tools.git_settings(tmp_path)
    if "FIFO" in what:
        (tmp_path / ".git" / "packed-refs").unlink()
    TAGS_THAT_ARE_NONE[what](tmp_path / ".git")
    expected = ".git/hooks/a" if "hooks" in what else ".git/refs/tags/v1"
    assert tools.changed_settings(before, tools.git_settings(tmp_path)) == [expected]


HOME = (".npmrc", ".npm/_cacache/x", ".cache/pip/x", ".local/share/x", ".config/git/config")


def test_whatever_programs_may_obey_in_a_home_is_seen_and_a_link_to_a_folder(tmp_path):
    for path in HOME:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / ".linked").symlink_to(tmp_path / ".cache")
    # .npmrc begins like the cache beside it
    assert tools.home_config(tmp_path) == [".config/git/config", ".linked", ".npmrc"]


def test_a_folder_that_cannot_be_listed_is_seen(tmp_path, monkeypatch):
    scandir = os.scandir

    def locked(path):
        if str(path).rstrip("/").endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    (tmp_path / ".config" / "locked").mkdir(parents=True)
    before = tools.noted(tmp_path, [".config/"])
    monkeypatch.setattr(os, "scandir", locked)
    assert tools.home_config(tmp_path) == [".config/locked"]
    now = tools.noted(tmp_path, [".config/"])
    assert tools.compared(tmp_path, before, now) == ([".config/locked"], [])


ENTRY = "[pytest11]\nextra = extra\n"
HASH = base64.urlsafe_b64encode(hashlib.sha256(ENTRY.encode()).digest()).rstrip(b"=").decode()
PLUGINS = {
    "an installer has put it on record": ({"RECORD": f"x.dist-info/entry_points.txt,sha256={HASH},9\n"}, False),
    "its record has no hash": ({"RECORD": "x.dist-info/entry_points.txt,,\n"}, True),
    "its record has another hash": ({"RECORD": "x.dist-info/entry_points.txt,sha256=abc,9\n"}, True),
    "it has no record": ({}, True),
    "its record cannot be read": ({"RECORD": "x" * 200_000}, True),
    "it is installed from a folder": (
        {"RECORD": f"x.dist-info/entry_points.txt,sha256={HASH},9\n", "direct_url.json": "{}"}, True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", PLUGINS)
def test_a_new_plugin_of_pytest_counts_where_an_installer_has_put_it_on_record(tmp_path, what):
    files, is_new = PLUGINS[what]
    site = ".venv/lib/python3.11/site-packages/"
    for path, text in {".venv/pyvenv.cfg": "", f"{site}pluggy.py": ""}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    before = tools.noted(tmp_path, [".venv/"])
    (tmp_path / site / "x.dist-info").mkdir()
    for name, text in {"entry_points.txt": ENTRY, **files}.items():
        (tmp_path / site / "x.dist-info" / name).write_text(text)
    new, changed = tools.compared(tmp_path, before, tools.noted(tmp_path, [".venv/"]))
    assert (f"{site}x.dist-info/entry_points.txt" in new, changed) == (is_new, [])


NPM, VITEST = "node_modules/.package-lock.json", "node_modules/vitest/x.js"
PNPM, RECORD = (
    f"node_modules/.pnpm/vitest@1/{VITEST}",
    ".venv/lib/python3.11/site-packages/app-1.dist-info/RECORD",
)
AT_START = {VITEST: "1", NPM: "1"}
INSTALLED = {  # what there was, what came then, and what of it no installation explains
    "npm adds a package": (AT_START, {"node_modules/jest/x.js": "1", NPM: "2"}, []),
    "npm's record is new, and a runner another": (AT_START, {VITEST: "2", NPM: "2"}, [VITEST]),
    "no installer was there": (AT_START, {"node_modules/jest/x.js": "1"}, ["node_modules/jest/x.js"]),
    "a fresh installation by npm": ({}, {**AT_START, "node_modules/a/node_modules/jest/x.js": "1"}, []),
    "pnpm installs": ({}, {PNPM: "1", "node_modules/.bin/vitest": "", "node_modules/.modules.yaml": "1"}, []),
    "a runner of pnpm's is another": ({PNPM: "1"}, {PNPM: "2"}, [PNPM]),
    "a project of one's own is installed again": ({RECORD: "1"}, {RECORD: "2"}, []),
}  # fmt: skip


@pytest.mark.parametrize("what", INSTALLED)
def test_what_an_installer_brings_is_explained_and_what_it_has_found_is_not(tmp_path, what):
    before, after, unexplained = INSTALLED[what]
    folders, notes = ["node_modules/", ".venv/"], []
    for files in (before, after):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        notes.append(tools.noted(tmp_path, folders))
    new, changed = tools.compared(tmp_path, *notes)
    assert new + changed == unexplained


def test_what_git_ignores_and_python_finds_first_is_seen(tmp_path):
    (tmp_path / "unittest.pyc").touch()
    assert [*tools.noted(tmp_path, ["unittest.pyc", "calc.pyc"]).tools] == ["unittest.pyc"]
