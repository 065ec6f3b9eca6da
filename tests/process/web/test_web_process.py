"""The process of `clew web` beside others: its sockets and the daemon's are removed, the processor is scarce."""

import contextlib
import http.client
import json
import os
import shutil

from clew_daemon.host.own_process import VIEW_NICE

DEADLINE_S = 60.0
HELLO = "# Say hello\n- [ ] Say it\n  ```sh\n  echo hello\n  ```\n"


@contextlib.contextmanager
def messages(web):
    """The messages that an open page of a session gets, one by one."""
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=DEADLINE_S)
    connection.request("GET", f"{web.prefix}/events", headers={"cookie": web.cookie})
    answer = connection.getresponse()

    def told():
        while line := answer.readline():
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))["goals"]

    try:
        yield told()
    finally:
        connection.close()


def test_a_goal_file_that_was_rejected_needs_a_person_in_the_list(clew, web):
    web.open()
    (clew.home / "inbox" / "bad.md").write_text("---\npriority: high\n---\nDo it\n")
    clew.wait("goal.rejected")
    clew.until(lambda: "bad.md: rejected" in web.page("/").body, "the page names the file")
    assert "priority" in web.page("/").body


def test_a_page_is_told_when_the_daemon_has_another_socket(clew, web):
    web.open()
    with messages(web) as told:
        clew.kill()
        assert next(told) == [""]
        shutil.rmtree(clew.home / "run")
        goal = clew.start().submit(HELLO)
        assert any(goal in goals for goals in told)


def test_the_server_leaves_the_processor_to_the_daemon_and_its_workers(clew, web):
    of = [os.getpriority(os.PRIO_PROCESS, pid) for pid in (clew.daemon.pid, web.process.pid)]
    assert of[1] == min(of[0] + VIEW_NICE, 19)
