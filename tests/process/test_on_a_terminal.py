"""Every command that prints, on real terminals of several widths: nothing is cut, all of it is as in a pipe."""

import json
import re
import subprocess
import sys
from functools import cache

import pytest
from harness import DEADLINE_S, Clew, forge
from of_proc import become_subreaper
from rich.cells import cell_len
from terminal import Terminal, on_terminal

from clew_daemon.cli.app import clew as command_line
from clew_daemon.logs.look import in_words

pytestmark = pytest.mark.xdist_group("on_a_terminal")  # what was printed is used by several tests
WIDTH = 60
UNWANTED = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
END = "\x1e"
RUNNER = f"""
import json, sys
from clew_daemon import cli
for args in json.loads(sys.argv[1]):
    code = cli.run(args)
    sys.stdout.flush()
    sys.stdout.write(f"{END}{{code}}{END}")
    sys.stdout.flush()
"""
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
PASSING = re.compile(r"([\d.]+ (ms|s|min|h|d)\b ?)+|(?<=_s\": )[\d.]+")
REASON = "the [bold]third[/bold] try [ended] early: 試験が失敗しました because " + " ".join(
    f"`module_{n}` [x] wants {n} arguments," for n in range(40)
)
TITLE = "Write 世界 [draft] to a file that has a name so long that no terminal of eighty columns has room for it"
WIDE = f"""\
# {TITLE}

## Prepare [all] the things
- [ ] Write the greeting, in a subtask whose text is longer than the narrowest of the terminals
  ```sh
  printf 'one  two   three\\n\\tfour [red]five[/red] 世界\\n' && echo hello > hello.txt
  ```
"""
FAILING = f"""\
---
checks:
  always_fails: "echo 'expected [1, 2]  but   got [3] {"and more " * 30}'; false"
---
{WIDE}"""
QUEUED = """\
---
depends_on: [some-goal-with-a-name-that-nobody-has-ever-submitted-or-will]
---
# Wait for another goal

## Do
- [ ] It
  ```sh
  true
  ```
"""
CIRCLING = f"""
hello()
for _ in range(4):
    run("printf 'a  b   [bold]c[/bold] 世界  %s' {"word " * 60}; false")
run("sleep 0; seq 1 40")
params = {{"command": "seq 1 40", "why": "to [see] them " * 12}}
calls = [{{"tool": "run_cmd", "params": params, "raw_output": "1", "outcome": "success", "execution_time": 0.1,
    "cost": {{}}, "tool_selection_rationale": "", "insights": ["forty [lines] " * 20], "learning": "",
    "relevance": "high", "next_suggested_actions": []}}]
call("reflect", iteration=1, progress_assessment="stuck", tool_calls=calls, synthesis="")
for _ in range(2):
    call("complete_subtask", success=False, failure={REASON!r})
"""
LESSON = f"List a directory before reading its files, {'always and everywhere ' * 12}[see]"
PLAYBOOK = json.dumps(
    {"bullets": [{"id": "fil-1", "section": "File Operations", "content": LESSON}]}
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with goals in every standing that a person meets, and its daemon."""
    become_subreaper()
    clew = Clew(tmp_path_factory.mktemp("clew"), forge=forge())
    try:
        clew.agent("circling", CIRCLING)
        clew.start()
        clew.names = {
            name: clew.submit(text, f"{name}.md")
            for name, text in {
                "wide": WIDE,
                "failing": FAILING,
                "queued": QUEUED,
                "blocked": "---\nagent: circling\n---\nGo in circles, then give up\n",
            }.items()
        }
        clew.drop("---\nworkspace: [1\n---\n# Broken\n", "broken.md")
        clew.wait("goal.rejected")
        clew.clew("playbook", "import", "-", given=PLAYBOOK)
        clew.wait("goal.completed", goal=clew.names["wide"])
        clew.wait("goal.failed", goal=clew.names["failing"])
        clew.wait("goal.blocked", goal=clew.names["blocked"])
        clew.until(lambda: all(g["pid"] is None for g in clew.goals().values()))
        (clew.home / "wrong.toml").write_text("[daemon]\nmax_workers = 0\nworkers = 3\n")
        yield clew
    finally:
        clew.close()
        become_subreaper(on=False)
    clew.assert_alone()


def commands(clew: Clew) -> list[list[str]]:
    """Return the arguments of every command that prints for people, errors included."""
    wide, failing, blocked = (clew.names[name] for name in ("wide", "failing", "blocked"))
    actions = json.loads(clew.clew("history", blocked, "--json"))["actions"]
    seqs = [str(action["seq"]) for action in actions]
    strategy = json.loads(clew.clew("playbook", "list", "--json"))["bullets"][0]["id"]
    wrong = str(clew.home / "wrong.toml")
    shown = [
        *([], ["--help"], ["--version"]),
        *(["status"], ["status", "-n", "1"], ["status", "--json"]),
        *(["status", goal] for goal in clew.names.values()),
        *(["history", wide], ["history", blocked], ["history", blocked, "-n", "2"]),
        *(
            ["show", wide, "#" + first_action(clew, wide)],
            ["show", failing, first_action(clew, failing)],
        ),
        *(["show", blocked, seq] for seq in seqs),
        *(["loops"], ["loops", blocked]),
        *(["context", blocked], ["context", wide]),
        *(["config"], ["config", "--check", wrong], ["verify"], ["doctor"], ["logs", "--json"]),
        *(["playbook"], ["playbook", "list"], ["playbook", "show", strategy]),
        ["playbook", "export"],
        *(["status", "nothing-of-this-name"], ["status", ""], ["show", wide, "99999999"]),
        *(["show", wide, "x"], ["history"], ["nope"], ["context", wide, "--turn", "x"]),
        *(["submit", "no-such-file.md"], ["backup", wrong], ["cancel", wide], ["resume", wide]),
        *(["playbook", "show", "xyz-1"], ["logs", "nope"]),
    ]
    return shown + [[*path, "--help"] for path in _paths(command_line)]


def first_action(clew: Clew, goal: str) -> str:
    return str(json.loads(clew.clew("history", goal, "--json"))["actions"][0]["seq"])


def _paths(command, at=()):
    command = getattr(command, "imported", lambda: command)()
    for name, inner in getattr(command, "commands", {}).items():
        yield [*at, name]
        yield from _paths(inner, [*at, name])


class Prints:
    """Runs all commands of one home, in a pipe or on a terminal; what each printed."""

    def __init__(self, clew: Clew) -> None:
        self.clew = clew
        self.commands = commands(clew)
        self.printed = cache(self._printed)

    def _printed(self, width: int) -> list[tuple[str, str]]:
        env = {k: v for k, v in self.clew.environment().items() if k not in UNWANTED}
        args = json.dumps([["--home", str(self.clew.home), *one] for one in self.commands])
        argv = [sys.executable, "-c", RUNNER, args]
        if not width:
            text = subprocess.run(
                argv, env=env, timeout=DEADLINE_S, stdout=-1, stderr=subprocess.STDOUT, check=True
            ).stdout.decode()
        else:
            text = on_terminal(argv, env | {"TERM": "xterm-256color"}, width)
        said, codes = text.split(END)[0::2], text.split(END)[1::2]
        assert len(codes) == len(self.commands), said[-1]
        return list(zip(said, codes, strict=False))


@pytest.fixture(scope="module")
def prints(home):
    return Prints(home)


def letters(text: str, args: list[str]) -> str:
    """Return all that is printed but styles, white space and what time changes."""
    line = PASSING.sub("~", " ".join(ANSI.sub("", text).split()))
    return re.sub(r"\d" if args == ["doctor"] else r"\s", "", line).replace(" ", "")


def test_a_terminal_shows_all_that_a_pipe_gets(prints):
    wrong = []
    piped, shown = prints.printed(0), prints.printed(WIDTH)
    for args, (in_pipe, code), (on_it, same) in zip(prints.commands, piped, shown, strict=True):
        one, other = letters(in_pipe, args), letters(on_it, args)
        if one != other or code != same or not one:
            pairs = enumerate(zip(one, other, strict=False))
            parted = max(0, next((n for n, (a, b) in pairs if a != b), len(other)) - 20)
            wrong.append((args, code, same, one[parted:], other[parted:]))
    assert [(a, o[:400], t[:400]) for a, _, _, o, t in wrong] == []


def test_lines_are_wrapped_between_words(prints):
    wide = []
    for args, (said, _) in zip(prints.commands, prints.printed(WIDTH), strict=True):
        if args[:1] not in (["status"], ["history"], ["show"], ["loops"], ["context"], ["config"]):
            continue
        if "--json" in args or "--check" in args or len(args) < 1:
            continue
        lines = [ANSI.sub("", line) for line in said.split("\n") if not line.startswith("clew: ")]
        wide += [(args, line) for line in lines if cell_len(line) > WIDTH and len(line.split()) > 1]
    assert not wide


def test_what_a_person_needs_to_know_of_a_goal_is_shown_whole(home):
    """In a pipe; the tests above say that a terminal shows the same."""
    shown = home.clew("status", home.names["blocked"])
    assert " ".join(shown.split()).count(" ".join(REASON.split())) == 1
    assert "rejected: broken.md: " in home.clew("status")
    failing = home.clew("status", home.names["failing"])
    assert "and more " * 29 in failing
    assert TITLE in failing


def test_the_log_on_a_terminal_has_every_value_of_its_lines(prints):
    clew = prints.clew
    args = ["logs", "-n", "30"]
    entries = [json.loads(line) for line in clew.clew(*args).splitlines()]
    kept = {k: v for k, v in clew.environment().items() if k not in UNWANTED}
    shown = letters(on_terminal(clew.command(*args), kept | {"TERM": "xterm-256color"}, WIDTH), [])
    for entry in entries:
        for key in entry.keys() - {"timestamp", "seq"}:
            said = in_words(entry, key) if entry[key] is not None else ""
            assert letters(said, []).replace("⏎", "") in shown.replace("⏎", "")


def test_a_daemon_in_a_terminal_says_where_its_inbox_is_and_logs_as_clew_logs_does(make_clew):
    clew = make_clew()
    env = {k: v for k, v in clew.environment().items() if k not in UNWANTED} | {"TERM": "xterm"}
    daemon = Terminal(clew.command("run"), env, 2_000)
    try:
        daemon.until(r"daemon\.ready.*\n")
        said = daemon.raw.decode()
        shown = on_terminal(clew.command("logs"), env, 2_000)
        daemon.process.terminate()
        assert daemon.end() == 0
    finally:
        daemon.close()
    ready = next(line for line in ANSI.sub("", said).splitlines() if "daemon.ready" in line)
    assert f"inbox={clew.home / 'inbox'}" in ready
    assert ready in [line.rstrip() for line in ANSI.sub("", shown).splitlines()]
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d info ", ready)
    assert "\x1b[1mdaemon.ready" in said
