"""Which files judge, by their names and places.

What belongs to one runner is in its record (runners.py), what to many in lists: who misses a name adds it there. Pure.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from clew_shared.proof.runners import any_of, words


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
    run-test* runtest* run_check* *.golden *.approved.* testutil* *.expected expected_* expected.* golden_* golden.*
    gold_* gold.* baseline* *_baseline.* reference* *_reference.* *oracle* ground_truth* check_* check.* checks.*
    *_check.* verify* *_verify.* validate* grade* ci.* hatch.toml poe_tasks.toml tasks.py dodo.py babel.config.*
    .babelrc* .swcrc .npmrc .yarnrc* .pnp.* pnpmfile.* .pnpmfile.* bunfig.toml nx.json turbo.json lerna.json .nvmrc
    .node-version Makefile makefile GNUmakefile *.mk justfile .justfile Justfile Taskfile.yml Taskfile.yaml
    .tool-versions mise.toml .mise.toml pixi.toml devbox.json flake.nix shell.nix .env .env.* .envrc .gitattributes
    .gitmodules .pre-commit-config.yaml .pre-commit-config.yml .gitlab-ci.yml Jenkinsfile azure-pipelines.yml
    docker-compose*.yml docker-compose*.yaml compose.yml compose.yaml testhelp* testlib* testsupport* asserts.*
    assertions.*
""") | frozenset(words(lambda one: one.files))
_named = re.compile(any_of(tuple(NAMES))).fullmatch

IN_PYTHON = re.compile(rf"(?:{any_of(words(lambda one: one.packages))})(?:\.\w+)?")
IN_NODE = re.compile(rf"{any_of(words(lambda one: one.node))}|\.(?:bin|.*lock.*|modules.*|yarn-.*)")
_INSTALLED = re.compile(
    rf"(?:.*/)?(?:(?:site|dist)-packages/{IN_PYTHON.pattern}|node_modules/(?:{IN_NODE.pattern}))(?:/.*)?"
)
"""Packages of test runners, where they are installed."""

CACHES = (
    *(".cargo/registry", ".cargo/git", ".rustup", ".npm", ".local/share/pnpm"),
    *(".local/share/uv", "go/pkg/mod", ".m2/repository", ".gradle/caches", ".nuget/packages"),
    *(".bun/install/cache", ".yarn/berry/cache", ".deno"),
)
"""Folders of a HOME that hold what package managers have downloaded, beside what is in its `.cache`."""
BUILDS = wordset("go-build ccache sccache bazel uv zig golangci-lint")
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


def is_judge(path: str, patterns: Patterns = Patterns()) -> bool:
    """Return whether a file judges by its name and place, whatever is in it."""
    if matcher(patterns.ignore)(path):
        return False
    named = in_folder(path) or _named(path.rpartition("/")[2]) or _INSTALLED.fullmatch(path)
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
