"""Which change of a file changes what judges: by its name, and of a manifest by the part that says how things run.

The lists are data: who misses a name adds it there. Pure; the sources of the names are the manuals of the tools.
"""

import configparser
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FOLDERS = _words("""
    test tests testing spec specs __tests__ __test__ __mocks__ __snapshots__ __fixtures__ e2e fixtures testdata
    test-data test_data golden goldens expected snapshots cypress playwright integration_tests integration-tests
    functional_tests unit_tests acceptance features checks ci .ci .github .gitlab .circleci .husky .cargo grader
    graders verifier testify gomega ginkgo baselines reference oracle .mvn
""")
"""Whatever is in a folder of such a name judges."""

NAMES = _words("""
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

_PACKAGE_KEYS = _words("""
    dependencies devDependencies optionalDependencies peerDependencies peerDependenciesMeta bundledDependencies
    version description keywords author contributors license files repository homepage bugs bin main module
    exports types typings name private engines funding sideEffects browser unpkg publishConfig
""")
"""What of package.json, composer.json and deno.json says nothing of how things run."""
_CARGO_KEYS = _words("dependencies dev-dependencies build-dependencies target features badges")
_PACKAGERS = _words("""
    poetry uv pdm setuptools setuptools_scm setuptools-scm flit hatch-vcs scikit-build maturin
""")
_BUILD_FILES = _words("pom.xml build.gradle build.gradle.kts CMakeLists.txt Gemfile mix.exs")
_RUNS = re.compile(
    rb"test|spec|check|skip|ignore|exclude|cover|lint|runner|harness|replace|patch|plugin",
    re.IGNORECASE,
)
_SHADOWS = frozenset(sys.stdlib_module_names) - {"test"} | _words("""
    pytest _pytest py pluggy iniconfig nose nose2 coverage hypothesis xdist tox nox sitecustomize usercustomize
""")

_CODE = _words("""
    py pyi pyx js jsx ts tsx mjs cjs mts cts vue svelte astro go rs c h cc cpp cxx hpp hh m mm java kt kts scala
    groovy clj rb php cs fs vb swift dart ex exs erl hs ml mli lua r jl pl pm sh bash zsh fish ps1 sql html htm
    css scss sass less tf proto graphql zig nim v sol asm s md rst adoc tex
""")
_LOCKS = _words("""
    package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb Cargo.lock poetry.lock
    uv.lock Pipfile.lock pdm.lock go.sum composer.lock Gemfile.lock mix.lock flake.lock .gitignore .dockerignore
    .gitkeep
""")
_PROSE = re.compile(
    r"(readme|changelog|changes|licen[cs]e|notice|authors|contribut|todo|news|history|copying|requirements.*\.txt$)",
    re.IGNORECASE,
)


CACHES = (
    *(".cargo/registry", ".cargo/git", ".rustup", ".npm", ".local/share/pnpm"),
    *(".local/share/uv", "go/pkg/mod", ".m2/repository", ".gradle/caches", ".nuget/packages"),
    *(".bun/install/cache", ".yarn/berry/cache", ".deno"),
)
"""Folders of a HOME that hold what package managers have downloaded, beside what is in its `.cache`."""
BUILDS = _words("go-build ccache sccache bazel")
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
    name = path.rpartition("/")[2]
    named = _in_folder(path) or _by_name(name) or _INSTALLED.fullmatch(path) is not None
    return named or matcher(patterns.judges)(path)


def _in_folder(path: str) -> bool:
    return any(folder in FOLDERS for folder in path.lower().split("/")[:-1])


def judges(path: str, old: bytes | None, new: bytes | None, patterns: Patterns) -> bool:
    """Return whether a change of a file, from `old` to `new` (None: no file), changes what judges.

    A module that is new where Python would find it before its own of that name, or before a test runner's, does.
    """
    if matcher(patterns.ignore)(path):
        return False
    name = path.rpartition("/")[2]
    if name in MANIFESTS and not _in_folder(path):
        was, now = part(name, old), part(name, new)
        says_something = any(now.values()) if isinstance(now, dict) else bool(now)
        return was != now and (old is not None or says_something)
    return is_judge(path, patterns) or (old is None and _shadows(path))


def _shadows(path: str) -> bool:
    """Return whether a new file at the top is found in place of a module of Python's library or of a runner."""
    top, _, below = path.partition("/")
    is_module = "/" not in below and path.endswith((".py", ".pyi", ".so", ".pyc"))
    return is_module and (top if below else top.partition(".")[0]) in _SHADOWS


def is_data(path: str) -> bool:
    """Return whether a file that was there before may be what a check compares with, though no name says so."""
    name = path.rpartition("/")[2]
    is_other = name in MANIFESTS or name in _LOCKS or _PROSE.match(name)
    if is_other or path.startswith(("docs/", "doc/")):
        return False
    _, dot, ending = name.lstrip(".").rpartition(".")
    return bool(dot) and ending.lower() not in _CODE


# -- manifests -------------------------------------------------------------------------------------


def part(name: str, data: bytes | None) -> object:
    """Return the part of a manifest that judges, all of it where it cannot be read, None where there is none."""
    read = MANIFESTS.get(name)
    if data is None or read is None:
        return None
    try:
        return read(data)
    except (ValueError, KeyError, AttributeError, TypeError, configparser.Error):
        return data


def _package(data: bytes) -> object:
    return {k: v for k, v in json.loads(data).items() if k not in _PACKAGE_KEYS}


def _pyproject(data: bytes) -> object:
    found = tomllib.loads(data.decode())
    tools: Mapping[str, Any] = found.get("tool", {})
    return {
        "tool": {k: v for k, v in tools.items() if k not in _PACKAGERS},
        "scripts": tools.get("pdm", {}).get("scripts"),
        "plugins": found.get("project", {}).get("entry-points", {}).get("pytest11"),
        "backend": found.get("build-system", {}).get("backend-path"),
    }


def _cargo(data: bytes) -> object:
    found = {k: v for k, v in tomllib.loads(data.decode()).items() if k not in _CARGO_KEYS}
    package = found.pop("package", {})
    kept = ("build", "default-run", "metadata")
    found["package"] = {k: v for k, v in package.items() if k.startswith("auto") or k in kept}
    plain = ("dependencies", "members", "package", "exclude")
    found["workspace"] = {k: v for k, v in found.get("workspace", {}).items() if k not in plain}
    return found


def _setup_cfg(data: bytes) -> object:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.read_string(data.decode())
    own = (one for one in found.sections() if not one.startswith(("metadata", "options")))
    return {one: dict(found[one]) for one in own}


def _go_mod(data: bytes) -> object:
    telling = (b"replace", b"exclude", b"toolchain")
    lines = map(bytes.strip, data.splitlines())
    return [one for one in lines if one.startswith(telling) or b"=>" in one]


def _lines(data: bytes) -> object:
    return sorted(line.strip() for line in data.splitlines() if _RUNS.search(line))


MANIFESTS: dict[str, Callable[[bytes], object]] = {
    **dict.fromkeys(("package.json", "composer.json", "deno.json"), _package),
    "pyproject.toml": _pyproject,
    "Cargo.toml": _cargo,
    "setup.cfg": _setup_cfg,
    "go.mod": _go_mod,
    **dict.fromkeys(_BUILD_FILES, _lines),
}
"""How the part that judges is read from a manifest, by its name."""


# -- tests within sources --------------------------------------------------------------------------

_TEST_SIGNS = re.compile(
    rb"#\[(?:\w+::)?test\]|#\[cfg\(test\)\]|#\[should_panic|\bassert(?:_eq|_ne)?!|^\s*>>> |import\.meta\.vitest"
    rb"|^\s*(?:async )?def test_|unittest\.TestCase",
    re.MULTILINE,
)
_EXAMPLE = re.compile(rb"^[ \t]*>>> .*\n(?:[ \t]*(?!>>>|\"\"\"|''')\S.*\n)*", re.MULTILINE)
_RUST_TESTS = re.compile(rb"^#\[cfg\(test\)\]\s*\n\s*mod ", re.MULTILINE)


def tests_within(data: bytes | None) -> int:
    """Return how many signs of tests a text has: of Rust's, doctests, functions, assertions of macros."""
    return len(_TEST_SIGNS.findall(data or b""))


def examples_lost(old: bytes | None, new: bytes | None) -> int:
    """Return how many examples of doctests, with what they expect, are in `old` and not in `new`."""
    found = (_EXAMPLE.findall(text or b"") for text in (old, new))
    before, now = ({b" ".join(one.split()) for one in examples} for examples in found)
    return len(before - now)


def with_old_tests(path: str, old: bytes | None, new: bytes | None) -> bytes | None:
    """Return a source of Rust with the tests that `old` has at its end, None where it has these, or `old` has none."""
    if not path.endswith(".rs") or not old or new is None or not (was := _RUST_TESTS.search(old)):
        return None
    now = _RUST_TESTS.search(new)
    mixed = (new[: now.start()] if now else new.rstrip() + b"\n\n") + old[was.start() :]
    return None if mixed.split() == new.split() else mixed


# -- sources that look at how they are run ----------------------------------------------------------

WATCHES: tuple[bytes, ...] = (
    rb"PYTEST_|\b_pytest\b|\bimport pytest|NODE_TEST_CONTEXT|JEST_WORKER_ID|VITEST|testing\.Testing\(\)",
    rb"sys\.modules(?:\.get)?[\[(]\s*['\"](?:_?pytest|unittest)",
    rb"['\"](?:_?pytest|unittest)['\"]\s+(?:not )?in\s+sys\.modules",
    rb"process\.env\.NODE_ENV\s*[!=]==?\s*['\"]test|cfg!\(test\)|cfg\(not\(test\)\)|flag\.Lookup\(\"test",
    rb"argv.{0,40}(?:pytest|unittest|jest|vitest|mocha)",
    rb"\b(?:assert|expect)(?:\.\w+)+\s*=[^=]|globalThis\.(?:expect|assert|test|it)\b|assert['\"]\)(?:\.\w+)+\s*=[^=]",
    rb"(?:open|read_text|read_bytes|readFileSync|include_str!)\([^)\n]*\b(?:tests?|spec|__tests__)[/\\]",
    rb"def __eq__\([^)]*\).*:\s*return True|__eq__['\"]?\s*[:=]\s*lambda[^:]*:\s*True",
)
"""In new lines of sources: they ask whether they are tested, change the test library, or read the tests."""

ODD: tuple[bytes, ...] = (
    rb"sys\._getframe|inspect\.(?:stack|currentframe)\(|gc\.get_(?:objects|referrers)|sys\.set(?:profile|trace)\(",
    rb"\bos\._exit\(|\batexit\.register|process\.exit(?:Code)?\b|Module\._load|require\.(?:cache|extensions)",
)
"""Ways to the same ends that have honest uses, too."""

_watches, _odd = (re.compile(b"|".join(patterns)) for patterns in (WATCHES, ODD))


def signs(old: bytes | None, new: bytes | None) -> tuple[str, str]:
    """Return what in the new lines of a source watches its tests, and what is odd there; "" for nothing."""
    known = set((old or b"").splitlines())
    text = b"\n".join(line for line in (new or b"").splitlines() if line not in known)
    found = (pattern.search(text) for pattern in (_watches, _odd))
    first, second = (one[0].decode(errors="replace")[:80] if one else "" for one in found)
    return first, second


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
