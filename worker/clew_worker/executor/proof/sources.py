"""Which change of a file changes what judges, by its name or by the part of it that says how things run. Pure.

Of sources: which tests are within them, and whether new lines look at how they are run. Of a check: whose exit code
decides it, by an approximation of the shell's grammar. The lists are data: who misses a name adds it there.
"""

import configparser
import contextlib
import json
import re
import shlex
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import dropwhile
from operator import itemgetter

from clew_shared.proof.judges import Patterns, in_folder, is_judge, matcher, wordset
from clew_shared.proof.runners import RUNNERS, words

_CODE = wordset("""
    py pyi pyx js jsx ts tsx mjs cjs mts cts vue svelte astro go rs c h cc cpp cxx hpp hh m mm java kt kts scala
    groovy clj rb php cs fs vb swift dart ex exs erl hs ml mli lua r jl pl pm sh bash zsh fish ps1 sql html htm
    css scss sass less tf proto graphql zig nim v sol asm s md rst adoc tex
""")
_LOCKS = wordset("""
    package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb Cargo.lock poetry.lock
    uv.lock Pipfile.lock pdm.lock go.sum composer.lock Gemfile.lock mix.lock flake.lock .gitignore .dockerignore
    .gitkeep
""")
_PROSE = re.compile(
    r"(readme|changelog|changes|licen[cs]e|notice|authors|contribut|todo|news|history|copying|requirements.*\.txt$)",
    re.IGNORECASE,
)
_SHADOWS = {*sys.stdlib_module_names, *words(lambda one: one.packages)} - {"test"}


def judges(path: str, old: bytes | None, new: bytes | None, patterns: Patterns) -> bool:
    """Return whether a change of a file, from `old` to `new` (None: nothing that can be read), changes what judges."""
    name = path.rpartition("/")[2]
    if name in MANIFESTS and not in_folder(path):
        was, now = part(name, old), part(name, new)
        found = was != now and (old is not None or bool(now))
        found = found or old is new is None  # too large, or no file
    else:
        is_new_module = old is None and shadows(path)
        found = is_new_module or is_judge(path, patterns) or is_all_tests(path, old)
    return found and not matcher(patterns.ignore)(path)


def shadows(path: str) -> bool:
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


# -- manifests: a part of them judges -------------------------------------------------------------

_PACKAGE = """(?!(dependencies|devDependencies|optionalDependencies|peerDependencies|peerDependenciesMeta
    |bundledDependencies|version|description|keywords|author|contributors|license|files|repository|homepage|bugs
    |bin|main|module|exports|types|typings|name|private|engines|funding|sideEffects|browser|unpkg|publishConfig)/)"""
_PYPROJECT = """tool/(?!(poetry|uv|pdm|setuptools|setuptools_scm|setuptools-scm|flit|hatch-vcs|scikit-build
    |maturin)/)|tool/pdm/scripts/|project/entry-points/pytest11/|build-system/backend-path/"""
_CARGO = """(?!(dependencies|dev-dependencies|build-dependencies|target|features|badges|package|workspace)/)
    |package/(auto|(build|default-run|metadata)/)|workspace/(?!(dependencies|members|package|exclude)/)"""
_RUNS = "(?i).*(test|spec|check|skip|ignore|exclude|cover|lint|runner|harness|replace|patch|plugin)"


def _nested(found: object, at: str = "") -> Iterator[tuple[str, object]]:
    """Yield what is not a table itself, by the keys above it, each with a slash."""
    if isinstance(found, dict):
        for key, below in found.items():
            yield from _nested(below, f"{at}{key}/")
    else:
        yield at, found


def _ini(text: str) -> object:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.read_string(text)
    return {name: dict(found[name]) for name in found.sections()}


_BUILD_FILES = wordset("pom.xml build.gradle build.gradle.kts CMakeLists.txt Gemfile mix.exs")
MANIFESTS: Mapping[str, str] = {
    **dict.fromkeys(("package.json", "composer.json", "deno.json"), _PACKAGE),
    "pyproject.toml": _PYPROJECT,
    "Cargo.toml": _CARGO,
    "setup.cfg": "(?!metadata|options)",
    "go.mod": "replace|exclude|toolchain|.*=>",
    **dict.fromkeys(_BUILD_FILES, _RUNS),
}
"""Which keys of a manifest, or lines, say how things are run."""
_READERS: Mapping[str, Callable[[str], object]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    **dict.fromkeys(("cfg", "ini"), _ini),
}
NAMING: Mapping[str, str] = {
    "pytest.ini": "pytest/python_files/",
    "tox.ini": "pytest/python_files/",
    "setup.cfg": "tool:pytest/python_files/",
    "pyproject.toml": "tool/pytest/ini_options/python_files/",
    "package.json": "jest/testMatch/",
}
"""By which key a config at the top names the files of tests."""
_CONFIG_BYTES, _LINE_BYTES = 128 << 10, 4_000
_TELLING = re.compile(r"(?=.{1,255}\Z)(?:.*/)?([^/]*[A-Za-z_][^/]*)\.\w+")


def _pairs(name: str, data: bytes) -> list[tuple[str, object]] | None:
    """Return the keys of a config with their values, or its lines, sorted; None where it cannot be read in time."""
    read = _READERS.get(name.rpartition(".")[2])
    longest = max(map(len, data.splitlines()), default=0)  # of which a parser needs the square
    if read and (len(data) > _CONFIG_BYTES or longest > _LINE_BYTES):
        return None
    try:
        text = data.decode("utf-8-sig", "surrogateescape")
        found = read(text) if read else Counter(map(str.strip, text.splitlines()))
        return sorted(_nested(found), key=itemgetter(0))
    except (ValueError, RecursionError, configparser.Error):
        return None


def part(name: str, data: bytes | None) -> object:
    """Return the part of a manifest that judges, all of it where it cannot be read, None where there is none."""
    if data is None or (found := _pairs(name, data)) is None:
        return data
    is_told = re.compile(MANIFESTS[name], re.VERBOSE).match
    return [pair for pair in found if is_told(pair[0])]


def named_tests(name: str, data: bytes | None) -> list[str]:
    """Return the names that a config of a runner gives to files of tests, but for those of all files, like `*.py`."""
    given = dict(_pairs(name, data or b"") or ()).get(NAMING[name], "")
    names = given.split() if isinstance(given, str) else given if isinstance(given, list) else []
    return [one.rpartition("/")[2] for one in map(str, names) if _TELLING.fullmatch(one)]


# -- tests within sources --------------------------------------------------------------------------

_TEST_SIGNS = re.compile(
    rb"#\[(?:\w+::)?test\]|#\[cfg\(test\)\]|#\[should_panic|^[^\S\n]*//[/!].*\bassert|^[^\S\n]*>>> "
    rb"|import\.meta\.vitest|^[^\S\n]*(?:async )?def test_|unittest\.TestCase",
    re.MULTILINE,
)
_EXAMPLE = re.compile(rb"^[ \t]*>>> .*\n(?:[ \t]*(?!>>>|\"\"\"|''')\S.*\n)*", re.MULTILINE)
_RUST_FIRST = re.compile(rb"#\[(?:cfg\(test\)|(?:\w+::)?test)\]")
_RUST_PART = re.compile(
    rb"(?m)^(?:[ \t]*#\[(?!cfg).*\n){0,5}([ \t]*)(?:async )?fn .*\n(?:(?!\1(?:async )?fn ).*\n){0,300}?\1\}"
    rb"|^[ \t]*(?!use |mod |//|#\[cfg\(test\)\]|\})\S.*"
)
_NAMED = re.compile(rb"(?m)(?:\b(?:fn|def|class) |^(?=\w+\s*[:=]))(\w+)")
_RUST_MOD = re.compile(rb"(?m)^#\[cfg\(test\)\]\n(?:#\[.*\n){0,5}mod \w+ \{\n(?:(?!\S).*\n)*\}")
_RUST_TESTS = re.compile(rb"^#\[cfg\(test\)\][^\S\n]*\n\s*mod ", re.MULTILINE)
_DEFINED = re.compile(rb"(?m)^((?:@.*\n){0,9})(?:async )?(?:def|class) (.*\n(?:[ \t)].*\n|\n)*)")
_SERVES = re.compile(rb"_|set_?up|tear_?down", re.IGNORECASE)
# One of another name takes nothing, unlike a function that asserts what it is given.
_IS_TEST = re.compile(rb"test_|(?=.*Test)(?s:.*)\bdef test|\w+\(\s*\)(?s:.*)\n[ \t]+assert.*\n*\Z")
_RETURNS = re.compile(rb"\n[ \t]+return \S")
_SCRIPT_WORK = re.compile(
    rb"\bexports?\b|^(?:async )?function\b|^class\b|^(?:const|let|var) \w+ = (?:async )?(?:\(|\w+ =>|function)",
    re.MULTILINE,
)
_SCRIPT_TEST = re.compile(rb"^(?:describe|suite|test|it)(?:\.\w+)*\(\s*['\"`]", re.MULTILINE)


def is_all_tests(path: str, data: bytes | None) -> bool:
    """Return whether a source is nothing but tests, whatever its name: all that it defines is one, or serves them."""
    data = (data or b"") + b"\n"
    if path.endswith((".js", ".ts", ".mjs", ".cjs", ".jsx", ".tsx")):
        return bool(_SCRIPT_TEST.search(data)) and not _SCRIPT_WORK.search(data)
    found = _DEFINED.findall(data) if path.endswith(".py") and b"assert" in data else ()
    tests = [one for above, one in found if not (_SERVES.match(one) or b"fixture" in above)]
    return bool(tests) and all(map(_IS_TEST.match, tests)) and not any(map(_RETURNS.search, tests))


def tests_within(data: bytes | None) -> int:
    """Return how many signs of tests a text has; in Rust assertions before the first test are the work's own."""
    rust = b"".join(_RUST_FIRST.split(data or b"", 1)[1:])
    return len(_TEST_SIGNS.findall(data or b"")) + len(re.findall(rb"\bassert(?:_eq|_ne)?!", rust))


def moving_tests(path: str, old: bytes | None, new: bytes | None) -> tuple[set[bytes], set[bytes]]:
    """Return the tests that a text no longer has, none while it defines what they name, and those new there."""
    was, now = (_tests(path, text) for text in (old, new))
    named = {word for one in was - now for word in re.findall(rb"\w+", one)}
    return set() if named & {*_NAMED.findall(new or b"")} else was - now, now - was


def _tests(path: str, data: bytes | None) -> set[bytes]:
    """Return the examples of doctests, and what stands in Rust's tests: as words, after the file's ending."""
    kind = path.rpartition(".")[2].encode(errors="replace")
    rust = b"".join(_RUST_FIRST.split(data or b"", 1)[1:])
    found = (*_EXAMPLE.findall(data or b""), *(one[0] for one in _RUST_PART.finditer(rust)))
    return {b" ".join([kind, *one.split()]) for one in found}


def tests_lost(old: bytes | None, new: bytes | None) -> int:
    """Return how many tests a text has lost; an example of doctests has gone where what it expects is another."""
    before, after = (
        {b" ".join(one.split()) for one in _EXAMPLE.findall(text or b"")} for text in (old, new)
    )
    examples = 0 if new is None else len(before - after)
    return max(0, tests_within(old) - tests_within(new), examples)


def with_old_tests(path: str, old: bytes | None, new: bytes | None) -> bytes | None:
    """Return a source of Rust with the tests that `old` has at its end, None where it has these, or `old` has none."""
    if not path.endswith(".rs") or not old or new is None or not (was := _RUST_TESTS.search(old)):
        return None
    now = _RUST_TESTS.search(new)
    mixed = (new[: now.start()] if now else new.rstrip() + b"\n\n") + old[was.start() :]
    return None if mixed.split() == new.split() else mixed


# -- sources that look at how they are run ----------------------------------------------------------

_OF_TESTS = rb"\([^)\n]{0,100}\b(?:tests?|spec|__tests__)[/\\]"
_WRITES = rb"[^)\n]{0,100},\s*(?:mode=)?['\"][wx]b?['\"]"
_WATCHES: tuple[bytes, ...] = (
    *(one.signs.encode() for one in RUNNERS if one.signs),
    rb"sys\.modules(?:\.get)?[\[(]\s*['\"](?:_?pytest|unittest)",
    rb"['\"](?:_?pytest|unittest)['\"]\s+(?:not )?in\s+sys\.modules",
    rb"process\.env\.NODE_ENV\s*===?\s*['\"]test",
    rb"argv.{0,40}(?:pytest|unittest|jest|vitest|mocha)",
    rb"\b(?:assert|expect)(?:\.\w++){1,9}+\s*=[^=]|globalThis\.(?:expect|assert|test|it)\b|assert['\"]\)(?:\.\w+)+\s*=[^=]",
    rb"(?:open|read_text|read_bytes|readFileSync|include_str!)%b(?!%b)" % (_OF_TESTS, _WRITES),
    rb"def __eq__\([^)]{0,200}\).{0,200}:\s*return True|__eq__['\"]?\s*[:=]\s*lambda[^:]{0,200}:\s*True",
)
"""In new lines of sources: they ask whether they are tested, change the test library, or read the tests."""
_ODD = (
    rb"sys\._getframe|inspect\.(?:stack|currentframe)\(|gc\.get_(?:objects|referrers)|sys\.set(?:profile|trace)\(",
    rb"open" + _OF_TESTS + _WRITES + rb"|process\.env\.NODE_ENV\s*!==?\s*['\"]test",
    rb"\bos\._exit\(|\batexit\.register|process\.exit(?:Code)?\b|Module\._load|require\.(?:cache|extensions)",
)
"""Ways to the same ends that have honest uses, too."""
_SIGNS = {"watches": re.compile(b"|".join(_WATCHES)), "odd": re.compile(b"|".join(_ODD))}


def signs(path: str, old: bytes | None, new: bytes | None) -> dict[str, str]:
    """Return what in the new lines of a source `watches` its tests, and what is `odd` there."""
    known, text = set((old or b"").splitlines()), new or b""
    if path.endswith(".rs"):
        text = _RUST_MOD.sub(b"", text)
    elif path.endswith((".md", ".rst", ".adoc", ".txt")):  # of which only doctests run
        text = b"".join(_EXAMPLE.findall(text))
    text = b"\n".join(line for line in text.splitlines() if line not in known)
    found = {kind: pattern.search(text) for kind, pattern in _SIGNS.items()}
    return {kind: one[0].decode(errors="replace")[:80] for kind, one in found.items() if one}


# -- whose exit code decides a check ---------------------------------------------------------------

_INTERPRETER = re.compile(
    r"(?:.*/)?(?:sh|bash|dash|zsh|python[\d.]*|node|ruby|perl|php|deno|bun|tsx|ts-node)"
)
_AROUND = re.compile(
    r"env|time|nice|exec|command|timeout|stdbuf|nohup|xvfb-run|!|\w+=.*|\d+(?:\.\d+)?[smhd]?"
)
_WITH_VALUE = ("-W", "-X", "-r", "--require", "-n")
_IS_CODE = ("-c", "-e", "--eval", "-p")
_PREPARES = wordset("cd echo printf mkdir set export true : rm cp")
_RUNNERS = frozenset(words(lambda one: one.programs))
_MAKE = re.compile(r"(?:^|[\s;&|])make((?:\s+[^\s;&|]+)*)")
_NPM = re.compile(r"(?:^|[\s;&|])npm(?:\s+run)?\s+(?:-\S+\s+)*([\w:.-]+)")


def deciding(cmd: str) -> list[str]:
    """Return the paths of the programs and scripts whose own exit code can make a check pass, "[" for a test."""
    text = re.sub(r"(?m)^[ \t]*#.*", "", cmd).replace("\n", " ; ")
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;()<>")
        lexer.whitespace_split, lexer.commenters = True, ""
        parts = list(lexer)
    except ValueError:
        return []
    found, folder, now = [], "", list[str]()
    for word in [*parts, ";"]:
        if set(word) - set("|&;()"):
            now.append(word)
            continue
        if now[:1] == ["cd"] and len(now) == 2:
            folder = f"{folder}/{now[1]}".strip("/")
        elif word != "|" and (path := _program(now)):  # of a pipe the last one decides
            found.append(f"{folder}/{path}".strip("/"))
        now = []
    return found


def _program(words: list[str]) -> str:
    """Return the script that a command runs, or its program, an option for code in the command itself."""
    program, *rest = [*dropwhile(_AROUND.fullmatch, words)] or [""]
    if program == "test":
        return "["
    if not _INTERPRETER.fullmatch(program):
        return program.removeprefix("./")
    args = iter(rest)
    for arg in args:
        if arg == "-m":
            return next(args, "").replace(".", "/")
        if arg in _IS_CODE:
            return arg
        if arg in _WITH_VALUE:
            next(args, "")
        elif not arg.startswith("-") and arg not in ("run", "test"):
            return arg.removeprefix("./")
    return ""


def decided_by(
    checks: Collection[str], changed: Mapping[str, bool], start: Callable[[str], str]
) -> list[str]:
    """Return which changed files, told whether they were there, decide a check; `start` reads a file of the start."""
    found, named = set[str](), _by_word(changed)
    were = _by_word(path for path, was in changed.items() if was)
    for cmd in checks:
        for word in (*deciding(cmd), *filter(_INTERPRETER.fullmatch, cmd.split())):
            found |= named[word]
        if not were:
            continue
        # all that decide have to be changed, none new: what is new may be what the check itself builds
        runs_others = {one for one in deciding(cmd) if one in ("make", "npm") or start(one)}
        itself = (one for one in deciding(cmd) if one in _RUNNERS or one not in runs_others)
        below = (one for text in _run_by(cmd, start) for one in deciding(text))
        ran = [were[word] for word in (*itself, *below) if word not in _PREPARES]
        found |= set().union(*ran) if all(ran) else set()
    return [f"{one}: its own exit code decides a check" for one in sorted(found)]


def _by_word(paths: Iterable[str]) -> defaultdict[str, set[str]]:
    """Return paths by the words that a command may name them by, along PATH by their last part."""
    found = defaultdict[str, set[str]](set)
    for path in paths:
        for word in (path, re.sub(r"(/__main__)?\.py$", "", path), path.rpartition("/")[2]):
            found[word].add(path)
    return found


def _run_by(cmd: str, start: Callable[[str], str]) -> Iterator[str]:
    """Yield what a check runs by a script, a Makefile or package.json, as these were at the start."""
    yield from (start(path) for path in deciding(cmd) if path not in _RUNNERS)
    for given in _MAKE.findall(cmd):
        text = start("GNUmakefile") or start("makefile") or start("Makefile")
        targets = "|".join(map(re.escape, given.split()))
        recipes = re.findall(rf"(?m)^(?:{targets})[ \t]*:(?!=).*\n((?:\t.*\n?)+)", text)
        yield re.sub(r"(?m)^\t[@+-]*", "", "".join(recipes)).replace("$$", "$")
    for name in _NPM.findall(cmd):
        with contextlib.suppress(ValueError, RecursionError):
            scripts = dict(_nested(json.loads(start("package.json") or "{}")))
            yield str(scripts.get(f"scripts/{name}/", ""))
