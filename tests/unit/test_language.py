"""What people read is in plain English: docs, help, messages and docstrings are free of clew's old odd wording."""

import ast
import re
from pathlib import Path

import click
from click.testing import CliRunner

from clew_daemon.cli.app import COMMANDS, clew

REPO = Path(__file__).resolve().parents[2]
HISTORY = {"adr", "performance"}
"""Folders of docs that stay as they were written, or are written by a program."""

PAGES = [REPO / "README.md", REPO / "CONTRIBUTING.md", REPO / "config.example.toml"]
PAGES += [p for p in sorted((REPO / "docs").rglob("*.md")) if p.parent.name not in HISTORY]
SOURCES = sorted(p for part in ("shared", "daemon", "worker") for p in (REPO / part).rglob("*.py"))

ODD = re.compile(
    r"""\b(?:
      mend(?:s|ed|ing)? (?# fix, repair)
    | anew (?# again, new)
    | whoever | nobody's
    | for\ want\ of (?# out of, because ... is missing)
    | at\ the\ (?:most|least) (?# at most, at least)
    | so\ many\b(?!\ that) (?# N, this many)
    | shall(?!\ must) (?# will, should, must)
    | means\ nothing\ to (?# unknown)
    | (?:goes|go|going|went)\ on\ (?:in|with)\b (?# continues, resumes)
    | lets?\ go (?# purge, release)
    | last\ words (?# last output)
    | (?:is|are)\ taken\ (?:in|later|when) (?# applies, starts)
    | as\ far\ as\ it\ reports | person\ must\ (?:answer|mend)
    | the\ same\ where | of\ one's\ own
    | (?<!there\ )(?:is|are)\ no\ (?:TOML|JSON|file|folder|link|number|key|text|config|playbook|strategy)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)

CODE = re.compile(r"^(`{3,}).*?^\1$|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def odd(text: str) -> list[str]:
    return [text[max(0, m.start() - 40) : m.end() + 20] for m in ODD.finditer(text)]


def constants(path: Path) -> list[str]:
    """The text constants of a source file that are more than one word, without docstrings and SQL."""
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree))
    docs = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
    texts = [n for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [n.value for n in texts if id(n) not in docs and " " in n.value.strip()]


def test_the_pattern_finds_the_old_wording_and_leaves_plain_words_alone():
    assert all(
        map(odd, ("Mend it, then", "at the most 3", "is no TOML", "what the agent shall know"))
    )
    assert not any(
        map(odd, ("amend", "recommended", "there is no file", "at most 3", "so many that"))
    )


def faults(paths, found_in):
    """Return what is wrong in each file, by its path."""
    found = {str(path.relative_to(REPO)): found_in(path) for path in paths}
    return {name: wrong for name, wrong in found.items() if wrong}


def test_pages_are_in_plain_english():
    assert faults(PAGES, lambda path: odd(CODE.sub("", path.read_text()))) == {}


def test_messages_are_in_plain_english():
    assert faults(SOURCES, lambda path: [f for text in constants(path) for f in odd(text)]) == {}


def docstrings(path: Path) -> list[str]:
    """The docstrings of a source file, those of constants and attributes too."""
    statements = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Expr)]
    values = [n.value.value for n in statements if isinstance(n.value, ast.Constant)]
    return [value for value in values if isinstance(value, str)]


def helps(command: click.Command, *names: str) -> list[str]:
    shown = CliRunner().invoke(clew, [*names, "--help"], terminal_width=1000)
    assert shown.exit_code == 0, shown.output
    inner = getattr(command, "commands", {})
    return [shown.output, *(text for n, c in inner.items() for text in helps(c, *names, n))]


def test_help_is_in_plain_english():
    for listed in COMMANDS:
        texts = [listed.get_short_help_str(1000), *helps(listed.imported(), listed.name)]
        assert [found for text in texts for found in odd(text)] == [], listed.name
