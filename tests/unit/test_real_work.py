"""Runs like those of real agents, in a table: loops that must be stopped, and work that looks alike.

Modelled on runs of coding and service agents and on loops that users have reported. A move is one action with
what comes of it; a loop says at which move, counted from 1, it must have been refused or spoken to at last.
"""

import itertools

import pytest

NAMES = ("parse", "load", "save", "render", "total", "merge", "visit", "close", "fetch")


def run(cmd, output="", result="success", **files):
    return ("run_cmd", {"cmd": cmd}, result, output, files)


def fails(cmd, output, **files):
    return run(cmd, output, "failure", **files)


def edit(path, text):
    name = path.replace(".", "_").replace("/", "_")
    return ("edit_file", {"path": path, "old": "x", "new": text}, "success", "ok", {name: text})


def misedit(old):
    return (
        "edit_file",
        {"path": "a.py", "old": old, "new": "y"},
        "error",
        f"`{old}` is not in a.py",
        {},
    )


def read(path, text, **args):
    return ("read_file", {"path": path, **args}, "success", text, {})


def ask(tool, output, **args):
    return (tool, args, "success", output, {})


WAIT = ("wait", {"seconds": 30}, "success", "", {})


def pods(state, seconds):
    return run("kubectl get pods", f"NAME READY STATUS AGE\nweb-1 {state} {seconds}s")


WORK = {
    "a commit for each part": [
        move
        for n in range(12)
        for move in (
            edit(f"m{n}.py", "x"),
            run("git status --short", f" M m{n}.py"),
            run("git add -A", index=f"{n}"),
            run("git commit -qm wip", head=f"{n}"),
            run("git status --short"),
        )
    ],
    "a long file in slices": [
        read("big.py", f"class {a}{b}:\n    {b} = {a}()", start_line=n * 100)
        for n, (a, b) in enumerate(itertools.permutations(NAMES, 2))
    ],
    "one command that shows the next page each time": [
        run("scroll_down", f"lines {n}00 to {n}99 of code") for n in range(30)
    ],
    "a deployment that takes its time": [
        *(move for n in range(5) for move in (pods("0/1 Pending", n * 30), WAIT)),
        *(move for n in range(5) for move in (pods("0/1 ContainerCreating", n * 30), WAIT)),
        pods("1/1 Running", 400),
    ],
    "a build asked for by a command that sleeps first": [
        *(run("sleep 60; gh run view 7", "build: in_progress") for _ in range(5)),
        run("sleep 60; gh run view 7", "build: success"),
    ],
    "a package lock that is freed at the fifth try": [
        *(fails("apt-get install -y jq", "E: Could not get lock /var/lib/dpkg/lock") for _ in range(4)),
        run("apt-get install -y jq", "Setting up jq", jq="1"),
    ],
    "a flaky test, run five times to see how flaky it is": [
        fails("pytest -k net", "1 failed"),
        run("pytest -k net", "1 passed"),
        fails("pytest -k net", "1 failed"),
        run("pytest -k net", "1 passed"),
        run("pytest -k net", "1 passed"),
    ],
    "the base line compared with the change, twice": [
        move
        for n in range(2)
        for move in (
            edit("a.py", f"v{n}"),
            fails("pytest", f"{n + 1} failed"),
            run("git stash", "saved", a_py=""),
            fails("pytest", "9 failed"),
            run("git stash pop", "popped", a_py=f"v{n}"),
            fails("pytest", f"{n + 1} failed"),
        )
    ],
    "attempts that are each taken back": [
        move
        for n in range(10)
        for move in (
            edit("a.py", f"idea {n}"),
            fails("make", f"error {n}x"),
            run("git checkout a.py", "Updated 1 path", a_py=""),
        )
    ],
    "orders of a customer, looked up one by one": [
        ask("get_order", f"order {n}: {'delivered' if n % 2 else 'pending'}", id=f"#W{n}") for n in range(15)
    ],
    "a migration up and down between edits": [
        move
        for n in range(8)
        for move in (
            run("alembic upgrade head", "ok", db=f"{n} up"),
            run("alembic downgrade -1", "ok", db="down"),
            edit("m.py", f"v{n}"),
        )
    ],
    "a formatter that has nothing to do after most edits": [
        move
        for n in range(15)
        for move in (edit("a.py", f"v{n}"), run("ruff format", "1 file left unchanged"), run("pytest", "5 passed"))
    ],
    "a debugger that steps": [run("next", f"-> {n}: x = {n}") for n in range(30)],
    "files made one after the other and listed": [
        move for n in range(15) for move in (edit(f"f{n}", "x"), run("ls", " ".join(f"f{k}" for k in range(n + 1))))
    ],
}  # fmt: skip

LOOPS = {
    "the same edit that does not apply": (3, [misedit("def f():")] * 5),
    "a test that fails in the same words after each of many edits": (
        14,
        [move for n in range(30) for move in (edit("a.py", f"v{n}"), fails("pytest", "1 failed"))],
    ),
    "ever other edits that do not apply": (8, [misedit(f"def {name}():") for name in NAMES]),
    "a server that is not there, for ever": (6, [fails("npm install", "connect ECONNREFUSED 127.0.0.1:4873")] * 8),
    "a script whose traceback only differs in addresses and times": (
        3,
        [fails("python go.py", f"10:00:0{n} <Job at 0x7f{n}a11c0> failed in 0.{n}s") for n in range(5)],
    ),
    "a file read and a folder listed in turn": (6, [read("a.py", "text"), run("ls", "a.py")] * 5),
    "made and cleaned": (4, [run("make", "ok", out="1"), run("make clean", "ok", out="")] * 4),
    "edit, test, the same edit taken back, test": (
        8,
        [edit("a.py", "x"), fails("pytest", "x"), edit("a.py", "y"), fails("pytest", "y")] * 4,
    ),
    "a page opened and left, opened and left": (
        6,
        [ask("goto", "a page", url="/a"), ask("back", "the start")] * 5,
    ),
    "four greps in a ring": (12, [run(f"grep -rn {w} .", f"{w}: 1") for w in ("aa", "bb", "cc", "dd")] * 5),
    "searches that never find anything": (9, [run(f"grep -rn word{n} .") for n in range(9)]),
    "a key that is refused, by ever other ways": (
        8,
        [fails(f"curl -u me https://api.example.org/{n}", "401 Unauthorized") for n in range(9)],
    ),
    "a deployment that never comes up": (
        14,
        [move for n in range(9) for move in (pods("0/1 Pending", n * 30), WAIT)],
    ),
    "a failing test that writes its own report each time": (
        6,
        [fails("pytest", "1 failed", report=f"{n}") for n in range(9)],
    ),
    "the same answer written again": (3, [edit("answer.txt", "42")] * 5),
    "a command that succeeded, to be sure": (4, [run("pytest -q", "12 passed in 0.31s")] * 6),
}  # fmt: skip


def first_word(agent, moves):
    """Play moves; give the number of the first that was refused or spoken to, and the refusals."""
    first, refused = None, []
    for n, (tool, args, result, output, files) in enumerate(moves, 1):
        answer = agent.act(tool, args, result, output, files=files)
        if not answer.allowed:
            refused.append((n, answer.reason))
        if first is None and (answer.word or not answer.allowed):
            first = n
    return first, refused


@pytest.mark.parametrize("name", WORK)
def test_work_is_never_refused(agent, name):
    assert first_word(agent, WORK[name])[1] == []


@pytest.mark.parametrize("name", WORK)
def test_work_is_never_a_failure(agent, name):
    first_word(agent, WORK[name])
    assert agent.state.subtask.attempts == 0


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_stopped_in_time(agent, name):
    latest, moves = LOOPS[name]
    first, _ = first_word(agent, moves)
    assert first is not None
    assert first <= latest
