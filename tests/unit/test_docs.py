"""The docs are true: commands, options, keys, links, examples and versions in them are real."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from clew_daemon.cli.app import COMMANDS as LISTED
from clew_daemon.cli.app import clew
from clew_daemon.inbox.goalfile import parse as goalfile
from clew_shared import tools
from clew_shared.config.agent_tables import CliAgentSettings, CommandAgentSettings, LlmAgentSettings
from clew_shared.config.settings import flatten, load
from clew_shared.config.tables import Settings, ToolLoopSettings
from clew_shared.wire import protocol

REPO = Path(__file__).resolve().parents[2]
DOCS = [REPO / "README.md", REPO / "CONTRIBUTING.md", REPO / "CHANGELOG.md"]
DOCS += sorted((REPO / "docs").rglob("*.md"))
FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CALL = re.compile(r"(?:^|[|;&(`]\s*|\s--\s)clew\s+([^`|;&#\n]*)", re.MULTILINE)
COMMANDS = {command.name: command.imported() for command in LISTED}


def blocks(path: Path, *languages: str) -> list[str]:
    """The fenced blocks whose info string begins with one of these words."""
    found = FENCE.findall(path.read_text())
    return [body for _, info, body in found if (info.split() or [""])[0] in languages]


def name(path: Path) -> str:
    return str(path.relative_to(REPO))


def calls(path: Path) -> list[str]:
    """Every `clew …` of shell blocks and inline code."""
    text = path.read_text()
    shell = "\n".join(blocks(path, "sh"))
    inline = re.findall(r"`(clew [^`\n]+)`", FENCE.sub("", text))
    return [call.strip() for call in CALL.findall(shell + "\n" + "\n".join(inline))]


def fault(call: str) -> str:
    """Why the command line does not know this call, "" where it does."""
    words = shlex.split(call.replace("[", " ").replace("]", " "), posix=True)
    command, inner = clew, COMMANDS
    while words:
        word = words.pop(0)
        if word.startswith("-") and word != "-":
            options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
            if word not in options | {"-h", "--help"}:
                return f"{call!r}: no option {word}"
            if word == "--home" and words:
                words.pop(0)
        elif inner:
            if word in ("COMMAND", "…", "..."):
                return ""
            if word not in inner:
                return f"{call!r}: no command {word}"
            command = inner[word]
            inner = getattr(command, "commands", {})
    return ""


def test_every_command_in_the_docs_exists():
    asked = [(name(path), call) for path in DOCS for call in calls(path)]
    assert [(place, found) for place, call in asked if (found := fault(call))] == []


def test_every_command_is_in_the_docs_of_the_command_line():
    text = (REPO / "docs" / "cli.md").read_text()
    assert [c for c in COMMANDS if f"`clew {c}" not in text] == []


def test_links_lead_to_files_that_are_there():
    wrong = []
    for path in DOCS:
        targets = [t.partition("#")[0] for t in LINK.findall(FENCE.sub("", path.read_text()))]
        inside = [t for t in targets if t and "://" not in t]
        wrong += [(name(path), t) for t in inside if not (path.parent / t).exists()]
    assert wrong == []


def test_config_in_the_docs_is_valid():
    for path in DOCS:
        for text in blocks(path, "toml"):
            load(text, {}, name(path))


def config_tables() -> dict[str, set[str]]:
    """The keys of each table of the config, by the table's name."""
    tables: dict[str, set[str]] = {"agents": {"default"}}
    for key in flatten(Settings()):
        table, _, rest = key.rpartition(".")
        tables.setdefault(table, set()).add(rest)
    kinds = (LlmAgentSettings, CommandAgentSettings, CliAgentSettings)
    agents = {key for kind in kinds for key in kind.model_fields}
    return tables | {"agents.NAME": agents, "loops.tools.NAME": set(ToolLoopSettings.model_fields)}


def test_config_keys_in_the_docs_exist():
    tables = config_tables()
    wrong = []
    for path in DOCS:
        named = re.findall(r"`\[([a-z]+(?:\.tools\.NAME|\.NAME)?)\] ([a-z_]+)", path.read_text())
        wrong += [f"{name(path)}: [{t}] {k}" for t, k in named if k not in tables.get(t, set())]
    assert wrong == []


def test_the_configuration_page_has_every_key_of_every_table():
    text = (REPO / "docs" / "configuration.md").read_text()
    shown: dict[str, set[str]] = {}
    for section in text.split("\n## ")[1:]:
        if found := re.match(r"`\[([\w.]+)\]`\n", section):
            shown[found[1]] = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert shown == config_tables()


def test_the_limits_of_the_loops_page_are_the_defaults():
    text = (REPO / "docs" / "loops.md").read_text()
    shown = re.findall(r"`([a-z_]+)` \((\d+)\)", text)
    loops = Settings().loops
    assert shown
    assert [(k, v) for k, v in shown if getattr(loops, k) != int(v)] == []


def test_goal_files_in_the_docs_can_be_used():
    for path in DOCS:
        for text in blocks(path, "markdown"):
            found = goalfile.parse(
                text.encode(), name(path), ["default", "plain", "own", "runbook"]
            )
            assert (name(path), found.unknown_keys) == (name(path), {})


def test_the_goal_file_page_has_every_key_of_the_front_matter():
    from clew_daemon.inbox.goalfile.parse import KEYS

    text = (REPO / "docs" / "goal-files.md").read_text()
    assert [key for key in KEYS if f"| `{key}` |" not in text] == []


def test_the_protocol_page_has_every_method_and_param():
    text = (REPO / "docs" / "protocol.md").read_text()
    sections = dict(re.findall(r"### `(\w+)`\n(.*?)(?=\n##|\Z)", text, re.DOTALL))
    assert list(sections) == list(protocol.METHODS)
    own = {m: model.model_fields for m, model in protocol.METHODS.items() if m != "propose"}
    wrong = [(m, p) for m, fields in own.items() for p in fields if p not in sections[m]]
    assert wrong == []


def test_the_protocol_page_has_every_tool_and_argument():
    text = (REPO / "docs" / "protocol.md").read_text()
    for tool in tools.TOOLS:
        row = re.search(rf"^\| `{tool.name}` \|.*$", text, re.MULTILINE)
        assert row, tool.name
        assert [p for p in tool.parameters["properties"] if f"`{p}" not in row[0]] == []


def examples() -> list[str]:
    """The blocks of agents.md that say of themselves that they can be run as they stand."""
    text = (REPO / "docs" / "agents.md").read_text()
    return [body for _, info, body in FENCE.findall(text) if info == "python run"]


@pytest.mark.parametrize("number", range(4))
def test_the_examples_of_the_library_run(number, tmp_path):
    import sys

    assert len(examples()) == 4
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", examples()[number]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_every_make_target_in_the_docs_exists():
    targets = set(re.findall(r"^([a-z]+):", (REPO / "Makefile").read_text(), re.MULTILINE))
    named = {
        t for path in DOCS for t in re.findall(r"(?:^|`)make (\w+)", path.read_text(), re.MULTILINE)
    }
    assert named <= targets


def test_every_test_that_the_docs_name_exists():
    files = list((REPO / "tests").rglob("test_*.py"))
    found = {path.stem for path in files}
    found |= {t for path in files for t in re.findall(r"def (test_\w+)", path.read_text())}
    named = {t for path in DOCS for t in re.findall(r"`(test_\w+)`", path.read_text())}
    assert named
    assert named <= found
