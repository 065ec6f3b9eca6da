"""Outcomes, error classes, temporary faults, polls and waits."""

import pytest

from clew_shared.record.progress import error_class, is_poll, is_wait, outcome, soft

SAME = [
    ("5 passed in 0.12s", "5 passed in 12.90s"),
    ("real 1m32s", "real 2m01.5s"),
    ("done at 2026-11-21T10:00:00.123Z", "done at 2026-11-22T09:13:44Z"),
    ("Sat Nov 21 10:00:00 UTC 2026", "Sun Nov 22 11:30:12 UTC 2026"),
    ("10:00:01 building", "10:07:43 building"),
    ("<object at 0x7f3a11c0>", "<object at 0x7f99b2d0>"),
    ("wrote /tmp/tmpab12/out.txt", "wrote /tmp/tmpzz99/out.txt"),
    ("started, pid 4312", "started, pid 991"),
    ("pid=4312 ready", "pid=17 ready"),
    ("[4312]: failed", "[881]: failed"),
    (
        "request id: 8c5e1f60-1111-4a4a-8888-aabbccddeeff",
        "request id: 00000000-2222-4b4b-9999-aabbccddee00",
    ),
    ("retry 1 of 5", "retry 2 of 5"),
    ("attempt #3 failed", "attempt #4 failed"),
    ("uptime: 3812", "uptime: 3999"),
    ("ok  ", "ok"),
]

OTHER = [
    ("3 failed, 2 passed", "2 failed, 3 passed"),
    ("progress 40%", "progress 50%"),
    ("12 of 90 files", "13 of 90 files"),
    ("queue length 7", "queue length 6"),
    ("version 1.2.3", "version 1.2.4"),
    ("line 12: unexpected x", "line 14: unexpected y"),
    ("HTTP 404", "HTTP 403"),
    ("a.py: error", "b.py: error"),
    ("exit status 1", "exit status 2"),
    ("downloaded 12 MB", "downloaded 14 MB"),
]


@pytest.mark.parametrize(("one", "two"), SAME)
def test_what_varies_from_run_to_run_is_no_part_of_the_outcome(one, two):
    assert outcome("run_cmd", "success", one) == outcome("run_cmd", "success", two)


@pytest.mark.parametrize(("one", "two"), OTHER)
def test_what_says_how_it_is_getting_on_is(one, two):
    assert outcome("run_cmd", "success", one) != outcome("run_cmd", "success", two)


def test_the_result_is_part_of_the_outcome():
    assert outcome("run_cmd", "success", "x") != outcome("run_cmd", "failure", "x")


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
def test_of_tools_that_only_write_the_result_alone_is(tool):
    assert outcome(tool, "success", "created, 12 bytes") == outcome(tool, "success", "unchanged")


def test_no_output_and_an_empty_one_are_the_same():
    assert outcome("t", "success", None) == outcome("t", "success", "")


@pytest.mark.parametrize(
    "text",
    [
        "HTTP 429 Too Many Requests",
        "Error: rate limit exceeded, retry after 20s",
        "502 Bad Gateway",
        "status code: 503",
        "upstream request timeout: timed out",
        "connect: connection refused",
        "Connection reset by peer (ECONNRESET)",
        "E: Could not get lock /var/lib/dpkg/lock-frontend",
        "fatal: Unable to create '.git/index.lock': File exists.",
        "database is locked",
        "Temporary failure in name resolution",
    ],
)
def test_a_temporary_fault_is_soft(text):
    assert soft("run_cmd", {"cmd": "x"}, "failure", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AssertionError: 500 != 501",
        "HTTP 404 Not Found",
        "401 Unauthorized",
        "SyntaxError: invalid syntax",
        "No such file or directory",
        "2 failed, 5000 passed",
    ],
)
def test_a_lasting_fault_is_not(text):
    assert not soft("run_cmd", {"cmd": "pytest -q"}, "failure", text)


def test_what_a_test_report_quotes_in_its_middle_is_no_fault_of_now():
    report = "\n".join(["head"] * 20 + ["handles 429 Too Many Requests"] + ["tail"] * 20)
    assert not soft("run_cmd", {"cmd": "pytest"}, "failure", report)


def test_a_timeout_is_soft():
    assert soft("run_cmd", {"cmd": "x"}, "timeout", None)


@pytest.mark.parametrize(
    "text", ["pending", "Status: running", "no new messages", "still in progress", "[queued]"]
)
def test_the_empty_answer_of_a_poll_is_soft(text):
    assert soft("job_status", {"id": 1}, "success", text)


def test_silence_is_soft_only_where_something_is_asked_for():
    assert soft("tail_logs", {}, "success", "")
    assert not soft("run_cmd", {"cmd": "mkdir x"}, "success", "")


@pytest.mark.parametrize(
    ("tool", "args"), [("get_status", {}), ("run_cmd", {"cmd": "tail -n 5 app.log"})]
)
def test_a_poll_is_known_by_its_words(tool, args):
    assert is_poll(tool, args)


def test_words_that_only_contain_them_are_no_poll():
    assert not is_poll("run_cmd", {"cmd": "python catalogue.py --dialogs"})


@pytest.mark.parametrize(
    ("tool", "args"),
    [("wait", {"seconds": 3}), ("run_cmd", {"cmd": "sleep 30"}), ("bash", {"command": " sleep 0.5s; "}),
     ("run_cmd", {"cmd": ["sleep", "5"]})],
)  # fmt: skip
def test_a_wait_only_lets_time_pass(tool, args):
    assert is_wait(tool, args)


@pytest.mark.parametrize("cmd", ["sleep 30 && make", "make; sleep 1", "sleeper 3"])
def test_a_command_that_also_sleeps_is_no_wait(cmd):
    assert not is_wait("run_cmd", {"cmd": cmd})


def classes(*pairs, tool="error"):
    return {error_class(tool, text, args) for text, args in pairs}


def test_one_missing_path_is_one_error_whatever_the_args():
    assert len(classes(
        ("no such file: src/a.py", {"path": "src/a.py"}),
        ("no such file: lib/other.py", {"path": "lib/other.py"}),
    )) == 1  # fmt: skip


def test_paths_in_a_command_are_arguments_too():
    assert len(classes(
        ("cat: src/a.py: No such file or directory", {"cmd": "cat src/a.py"}),
        ("cat: src/b.py: No such file or directory", {"cmd": "cat src/b.py"}),
        tool="failure",
    )) == 1  # fmt: skip


def test_which_file_failed_matters_in_a_longer_report():
    report = "one\ntwo\nthree\nfour\nFAILED {}"
    assert len(classes(
        (report.format("tests/a.py"), {"cmd": "pytest tests/a.py"}),
        (report.format("tests/b.py"), {"cmd": "pytest tests/b.py"}),
        tool="failure",
    )) == 2  # fmt: skip


def test_fewer_failures_are_another_error():
    assert len(classes(("3 failed", {}), ("2 failed", {}), tool="failure")) == 2


def test_success_timeouts_and_silence_have_no_error_class():
    assert classes(("x", {}), tool="success") == classes(("x", {}), tool="timeout") == {""}
    assert error_class("error", None, {}) == ""
