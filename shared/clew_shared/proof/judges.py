"""Which files judge, by names and places: who misses one adds it to a list, or to a runner's record. Pure."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from clew_shared.proof.runners import any_of, words


def wordset(text: str) -> frozenset[str]:
    return frozenset(text.split())


FOLDERS = wordset("""
    test tests testing specs __tests__ __test__ __mocks__ __snapshots__ __fixtures__ e2e fixtures testdata test-data
    test_data golden goldens expected cypress playwright integration_tests integration-tests functional_tests unit_tests
    acceptance .ci .github .gitlab .circleci .husky .cargo testify gomega ginkgo .mvn /tasks.py features/steps
    features/step_definitions features/step-definitions features/environment.py
""")
"""Whatever is in a folder of such a name judges, and what ends so: `/` in front is for the top of the workspace."""
NAMES = wordset("""
    test_* *_test.* *_tests.* *.test.* *.tests.* *.spec.* *_spec.* *-test.* *-spec.* tests.* test.* run_test* run-test*
    runtest* run_check* *.golden *.approved.* testutil* *.expected golden_* golden.* gold_* gold.* ground_truth*
    hatch.toml poe_tasks.toml dodo.py babel.config.* .babelrc* .swcrc .npmrc .yarnrc* .pnp.* pnpmfile.* .pnpmfile.*
    bunfig.toml nx.json turbo.json lerna.json .nvmrc .node-version Makefile makefile GNUmakefile *.mk justfile .justfile
    Justfile Taskfile.y*ml .tool-versions mise.toml .mise.toml pixi.toml devbox.json flake.nix shell.nix .env .env.*
    .envrc .gitattributes .gitmodules .pre-commit-config.y*ml .gitlab-ci.yml Jenkinsfile azure-pipelines.yml
    docker-compose*.y*ml compose.y*ml testhelp* testlib* testsupport* asserts.* assertions.*
""") | frozenset(words(lambda one: one.files))
MAY_JUDGE = wordset("""
    spec snapshots features/support checks ci grader graders verifier baselines reference oracle expected_* expected.*
    baseline* *_baseline.* reference* *_reference.* *oracle* check_* check.* checks.* *_check.* verify* *_verify.*
    validate* grade* ci.*
""")
"""Words of everyday: a source below a folder of sources may be about just that, so there they say nothing."""
_SOURCE = re.compile(
    r"(?<![^/])(?<!scripts/)(?:src|sources?|lib|app|pkg|internal|cmd|crates|include)/(?!.*(?:spec|features)/.*rb$).*\.(?:pyx?"
    r"|[cm]?[jt]sx?|vue|svelte|go|rs|rb|cc?|[ch]pp|hh?|java|kt|scala|cs|swift|dart|php|exs?)\Z", re.IGNORECASE
)  # fmt: skip
_named, _may_be = (re.compile(any_of(tuple(names))).fullmatch for names in (NAMES, MAY_JUDGE))
IN_PYTHON = re.compile(rf"(?:{any_of(words(lambda one: one.packages))})(?:\.\w+)?")
IN_NODE = re.compile(rf"{any_of(words(lambda one: one.node))}|\.(?:bin|.*lock.*|modules.*|yarn-.*)")
_INSTALLED = re.compile(
    rf"(?:.*/)?(?:(?:site|dist)-packages/{IN_PYTHON.pattern}|node_modules/(?:{IN_NODE.pattern}))(?:/.*)?"
)
"""Packages of test runners, where they are installed."""
CACHES = (
    *(".cargo/registry", ".cargo/git", ".rustup", ".npm", ".local/share/pnpm", ".local/share/uv", "go/pkg/mod"),
    *(".m2/repository", ".gradle/caches", ".nuget/packages", ".bun/install/cache", ".yarn/berry/cache", ".deno"),
)  # fmt: skip
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
    name, outside = path.rpartition("/")[2], _SOURCE.sub("", path)
    named = in_folder(path, FOLDERS) or in_folder(outside) or _named(name)
    named = named or (_may_be(name) and outside == path) or _INSTALLED.fullmatch(path)
    return bool(named) or matcher(patterns.judges)(path)


def in_folder(path: str, names: frozenset[str] = FOLDERS | MAY_JUDGE) -> bool:
    parts = ["", *path.lower().split("/")]
    return not names.isdisjoint({*parts[:-1], *map("/".join, pairwise(parts))})


def bad_patterns(patterns: Iterable[str]) -> list[str]:
    """Return why patterns are none for files of the workspace."""
    found = list[str]()
    for one in patterns:
        faults = {
            "is empty": not one.strip(),
            "is absolute; patterns are relative to the workspace": one.startswith(("/", "~")),
            "leads out of the workspace": ".." in one.split("/"),
        }
        found += [f"{one!r} {fault}" for fault, is_so in faults.items() if is_so][:1]
    return found
