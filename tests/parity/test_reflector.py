import pytest

from clew_shared.playbook.reflector import Kind, steps
from clew_worker import ExecutionReflector, ToolCall

LIST = ToolCall("list_files", {"path": "."})
READ = ToolCall("read_file", {"file_path": "test.py"})


def cmd(command, **more):
    return ToolCall("run_cmd", {"cmd": command}, **more)


def read(path, **more):
    return ToolCall("read_file", {"path": path}, **more)


def edit(path):
    return ToolCall("edit_file", {"path": path})


def search(pattern):
    return ToolCall("search", {"pattern": pattern})


def reflect(*calls, outcome="success"):
    return ExecutionReflector().reflect("check the test file", calls, outcome)


@pytest.mark.parametrize(
    ("calls", "category", "confidence"),
    [
        ([LIST, READ], "file_operations", 0.75),
        ([read("a.py"), edit("a.py")], "file_operations", 0.8),
        ([read("src/a.py"), read("src/b.py"), read("src/c.py")], "file_operations", 0.65),
        ([search("main"), read("a.py")], "code_navigation", 0.8),
        ([search("main"), search("entry")], "code_navigation", 0.65),
        ([edit("a.py"), cmd("pytest -q")], "testing", 0.8),
        ([edit("tests/test_a.py"), edit("a.py"), cmd("pytest")], "testing", 0.85),
        ([read("tests/test_a.py"), cmd("python -m pytest")], "testing", 0.7),
        ([cmd("pip install flask"), cmd("python app.py")], "shell_commands", 0.75),
        ([cmd("npm ci && npm test"), cmd("true")], "shell_commands", 0.75),
        ([cmd("make"), cmd(["make", "test"])], "shell_commands", 0.7),
        ([cmd("git status"), cmd("git commit -m x")], "git_operations", 0.75),
    ],
)
def test_patterns_that_were_seen_give_lessons_of_their_category(calls, category, confidence):
    result = reflect(*calls)
    assert (result.category, result.confidence) == (category, confidence)
    assert "(seen: " in result.content
    assert result.reasoning


@pytest.mark.parametrize(
    "calls",
    [
        [READ, LIST],
        [cmd("python x.py"), cmd("pip install flask")],
        [cmd("pytest"), cmd("make")],
        [cmd("git commit -m x"), cmd("git status")],
        [cmd("pytest"), edit("a.py")],
        [edit("a.py"), read("a.py")],
        [read("a.py"), search("main")],
        [LIST],
    ],
)
def test_the_other_order_teaches_nothing(calls):
    assert reflect(*calls) is None


@pytest.mark.parametrize("outcome", ["error", "failure", "timeout"])
@pytest.mark.parametrize(
    "calls",
    [
        [LIST, READ],
        [cmd("python x.py"), cmd("pip install flask")],
        [edit("a.py"), cmd("pytest")],
        [read("a.py"), edit("a.py")],
        [search("main"), read("a.py")],
        [cmd("git status"), cmd("git commit -m x")],
    ],
)
def test_an_error_gives_only_a_lesson_about_the_error(calls, outcome):
    result = reflect(*calls, outcome=outcome)
    assert result.category == "error_handling"
    assert result.content.startswith("When ")
    assert "before" not in result.content.partition("(seen:")[0]


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("cd x && FOO=1 python3.11 -m pytest -q", [Kind.TEST]),
        ("sudo apt-get -y install jq; ./run.sh", [Kind.INSTALL, Kind.RUN]),
        ("python tests/test_a.py", [Kind.TEST]),
        ("python -m build", [Kind.BUILD]),
        ("python -m app", [Kind.RUN]),
        ("cat a.py | head", [Kind.READ]),
        ("cat > a.py <<EOF\nimport x\npip install y\nEOF", [Kind.WRITE]),
        ("echo hi > a.txt", [Kind.WRITE]),
        ("sed -i s/a/b/ a.py", [Kind.WRITE]),
        (".venv/bin/pytest", [Kind.TEST]),
        ("", []),
        ("frobnicate --all", [Kind.OTHER]),
    ],
)
def test_shell_commands_are_read_as_the_steps_that_they_are(command, kinds):
    assert [step.kind for step in steps([cmd(command)])] == kinds


@pytest.mark.parametrize(
    ("call", "kind", "target"),
    [
        (ToolCall("str_replace_editor", {"command": "view", "path": "a.py"}), Kind.READ, "a.py"),
        (ToolCall("text_editor", {"command": "create", "path": "a.py"}), Kind.WRITE, "a.py"),
        (ToolCall("text_editor", {"command": "view src/a.py"}), Kind.READ, "src/a.py"),
        (ToolCall("git", {"cmd": "status"}), Kind.GIT_LOOK, ""),
        (ToolCall("read_file", {"cmd": "src/a.py"}), Kind.READ, "src/a.py"),
        (ToolCall("grep", {"cmd": "main"}), Kind.SEARCH, "main"),
    ],
)
def test_editors_and_programs_as_tools_are_read_as_what_they_do(call, kind, target):
    assert [(step.kind, step.target) for step in steps([call])] == [(kind, target)]


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([LIST, ToolCall("read_file", {"path": "a"}, "error")], "list its directory"),
        ([READ, cmd("make", result="failure"), cmd("ls")], "verify the environment"),
        ([READ, ToolCall("edit_file", {"path": "a"}, "error")], "check its preconditions"),
    ],
)
def test_the_lesson_of_an_error_is_about_what_failed(calls, said):
    assert said in ExecutionReflector().reflect("q", calls, "error").content


def test_a_list_of_another_folder_teaches_nothing_about_a_file():
    calls = [ToolCall("list_files", {"path": "src"}), ToolCall("read_file", {"path": "docs/a.md"})]
    assert ExecutionReflector().reflect("q", calls, "success") is None
