"""Which files judge, by their names and places.

The lists are data: who misses a name adds it there. Pure; the sources of the names are the manuals of the tools.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache


def wordset(text: str) -> frozenset[str]:
    return frozenset(text.split())


FOLDERS = wordset("""
    test tests testing spec specs __tests__ __test__ __mocks__ __snapshots__ __fixtures__ e2e fixtures testdata
    test-data test_data golden goldens expected snapshots cypress playwright integration_tests integration-tests
    functional_tests unit_tests acceptance features checks ci .ci .github .gitlab .circleci .husky .cargo grader
    graders verifier testify gomega ginkgo baselines reference oracle .mvn
""")
"""Whatever is in a folder of such a name judges."""

NAMES = wordset("""
    test_* *_test.* *_tests.* *.test.* *.tests.* *.spec.* *_spec.* *-test.* *-spec.* tests.* test.* run_test*
    run-test* runtest* run_check* *Test.java *Tests.java *TestCase.java *IT.java *Test.kt *Tests.kt *Test.cs
    *Tests.cs *Test.php *Tests.swift *Spec.scala *Test.scala *.snap *.golden *.approved.* *.feature *.bats testutil*
    *.expected expected_* expected.* golden_* golden.* gold_* gold.* baseline* *_baseline.* reference*
    *_reference.* *oracle* ground_truth* check_* check.* checks.* *_check.* verify* *_verify.* validate* grade*
    ci.* conftest.py sitecustomize.py usercustomize.py *.pth entry_points.txt direct_url.json *.egg-link
    pytest.ini .pytest.ini pytest.toml .pytest.toml tox.ini tox.toml noxfile.py .coveragerc .noserc nose.cfg
    hatch.toml poe_tasks.toml tasks.py dodo.py mypy.ini .mypy.ini ruff.toml .ruff.toml .flake8 .pylintrc
    pyrightconfig.json .python-version jest.config.* jest.setup.* vitest.config.* vitest.workspace.*
    vitest.setup.* vite.config.* playwright.config.* cypress.config.* karma.conf.* .mocharc* mocha.opts
    ava.config.* .taprc babel.config.* .babelrc* .swcrc .nycrc* .c8rc* wdio.conf.* .npmrc .yarnrc* .pnp.*
    pnpmfile.* .pnpmfile.* bunfig.toml nx.json turbo.json lerna.json tsconfig*.json .eslintrc* eslint.config.*
    .eslintignore .prettierrc* .prettierignore biome.json* .stylelintrc* .nvmrc .node-version Makefile makefile
    GNUmakefile *.mk justfile .justfile Justfile Taskfile.yml Taskfile.yaml Rakefile build.rs clippy.toml
    .clippy.toml rustfmt.toml rust-toolchain* .golangci.* go.work .rspec .simplecov phpunit.xml* *.runsettings
    Directory.Build.* CTest*.cmake .tool-versions mise.toml .mise.toml pixi.toml devbox.json flake.nix shell.nix
    .env .env.* .envrc .gitattributes .gitmodules .pre-commit-config.yaml .pre-commit-config.yml .gitlab-ci.yml
    Jenkinsfile azure-pipelines.yml docker-compose*.yml docker-compose*.yaml compose.yml compose.yaml
    CMake*Presets.json testhelp* testlib* testsupport* asserts.* assertions.*
""")

RUNNERS_PY = (
    r"(?:_?pytest|pluggy|iniconfig|coverage|hypothesis|xdist|pytest_[^/]+|nose2?|tox|nox)(?:\.py)?"
)
RUNNERS_JS = (
    r"(?:jest|jest-[^/]+|@jest/[^/]+|expect|vitest|@vitest/[^/]+|vite|vite-node|mocha|chai|tap|ava|c8|nyc|typescript"
    r"|eslint|@playwright/[^/]+|sinon|@testing-library/[^/]+|babel-jest|ts-jest|\.bin)"
)
_INSTALLED = re.compile(
    rf"(?:.*/)?(?:(?:site|dist)-packages/{RUNNERS_PY}|node_modules/{RUNNERS_JS})(?:/.*)?"
)
"""Packages of test runners, where they are installed."""

CACHES = (
    *(".cargo/registry", ".cargo/git", ".rustup", ".npm", ".local/share/pnpm"),
    *(".local/share/uv", "go/pkg/mod", ".m2/repository", ".gradle/caches", ".nuget/packages"),
    *(".bun/install/cache", ".yarn/berry/cache", ".deno"),
)
"""Folders of a HOME that hold what package managers have downloaded, beside what is in its `.cache`."""
BUILDS = wordset("go-build ccache sccache bazel")
"""What there is in `.cache` of what was built: tools fail where they cannot write there."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """What a config and a goal file say: which files judge besides, and which never do."""

    judges: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@cache
def matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """Return what tells whether a path matches: `*` within a name, `**` across folders, a folder for all in it.

    A pattern without a slash is for a name anywhere, as in .gitignore.
    """
    if not patterns:
        return lambda _path: False
    found = re.compile("|".join(map(_translated, patterns)))
    return lambda path: found.fullmatch(path) is not None


def _translated(pattern: str) -> str:
    pattern = pattern.strip("/") if "/" in pattern.strip("/") else f"**/{pattern.strip('/')}"
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return f"(?:{''.join(signs.get(part) or re.escape(part) for part in parts)}(?:/.*)?)"


_EXACT = frozenset(name for name in NAMES if "*" not in name)
_BEGINNINGS = tuple(name[:-1] for name in NAMES if name.find("*") == len(name) - 1)
_ENDINGS = tuple(name[1:] for name in NAMES if name.rfind("*") == 0)
_by_pattern = matcher(tuple(n for n in NAMES if "*" in n[1:-1] or n.count("*") > 1))


def _by_name(name: str) -> bool:
    """Return whether a name is one of NAMES; this is asked of each file that git ignores."""
    simple = name in _EXACT or name.startswith(_BEGINNINGS) or name.endswith(_ENDINGS)
    return simple or _by_pattern(name)


def is_judge(path: str, patterns: Patterns = Patterns()) -> bool:
    """Return whether a file judges by its name and place, whatever is in it."""
    if matcher(patterns.ignore)(path):
        return False
    named = in_folder(path) or _by_name(path.rpartition("/")[2]) or _INSTALLED.fullmatch(path)
    return bool(named) or matcher(patterns.judges)(path)


def in_folder(path: str) -> bool:
    return not FOLDERS.isdisjoint(path.lower().split("/")[:-1])


def bad_patterns(patterns: Iterable[str]) -> list[str]:
    """Return why patterns are none for files of the workspace."""
    found = []
    for one in patterns:
        if not one.strip():
            found.append(f"{one!r} is empty")
        elif one.startswith(("/", "~")):
            found.append(f"{one!r} is absolute; patterns are relative to the workspace")
        elif ".." in one.split("/"):
            found.append(f"{one!r} leads out of the workspace")
    return found
