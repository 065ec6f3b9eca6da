"""`clew herald` with real daemons: metrics, traces and messages, however often it is killed."""

import contextlib
import http.server
import json
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from harness import DEADLINE_S, POLL_S
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_service

SECRET = "hunter2hunter2"
RUNBOOK = """
# Write some lines
- [ ] Write them
""" + "".join(f"  ```sh\n  echo {number} >> lines.txt\n  ```\n" for number in range(12))
QUESTION = "# Think about something\nThere is no model for this.\n"


class Endpoint:
    """A web server that keeps what it is sent; while `holds` is set it receives and does not answer."""

    def __init__(self, port=0):
        self.received = []
        self.status = 200
        self.holds = threading.Event()
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.received.append((self.path, body))
                while endpoint.holds.is_set():
                    time.sleep(POLL_S)
                with contextlib.suppress(OSError):
                    self.send_response(endpoint.status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.05])
        self.thread.start()

    def close(self):
        self.holds.clear()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def bodies(self, *, traces):
        found = list(self.received)
        return [body for path, body in found if path.endswith("/v1/traces") == traces]

    @property
    def messages(self):
        return [json.loads(body) for body in self.bodies(traces=False)]

    @property
    def spans(self):
        asked = map(trace_service.ExportTraceServiceRequest.FromString, self.bodies(traces=True))
        resources = [one for request in asked for one in request.resource_spans]
        return [span for one in resources for scope in one.scope_spans for span in scope.spans]


@pytest.fixture
def endpoint():
    found = Endpoint()
    yield found
    found.close()


class Herald:
    """A herald of a home; it may be started and killed as often as one likes."""

    def __init__(self, clew):
        self.clew = clew
        self.out = clew.folder / "herald.jsonl"
        self.process = None
        self.env = {}
        clew.configure({"herald.listen": "127.0.0.1:0", "notify.desktop": False})

    def messages_to(self, port, path="hook"):
        urls = self.clew.home / "notify.urls"
        urls.write_text(f"# where to\n\njson://me:{SECRET}@127.0.0.1:{port}/{path}\n")
        urls.chmod(0o600)
        self.clew.configure({"notify.urls_file": str(urls)})

    def start(self, *args):
        size = self.out.stat().st_size if self.out.exists() else 0
        with self.out.open("ab") as out:
            self.process = self.clew.launch(self.clew.command("herald", *args), out, **self.env)
        self.clew._before.add(self.process.pid)  # no leftover of the daemon
        ready = self.clew.until(lambda: self.event("herald.ready", size), "the herald is ready")
        self.url = ready["metrics"].removesuffix("/metrics")
        return self

    def event(self, name, after=0):
        lines = self.out.read_bytes()[after:].decode().splitlines()
        found = [json.loads(line) for line in lines if line.startswith('{"')]
        return next((line for line in found if line["event"] == name), None)

    def get(self, path="/metrics", host=None):
        request = urllib.request.Request(self.url + path, headers={"Host": host} if host else {})
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return answer.read().decode()

    def value(self, series):
        found = re.search(rf"^{re.escape(series)} (\S+)$", self.get(), re.MULTILINE)
        return None if found is None else float(found[1])

    def end(self, signum=signal.SIGKILL):
        self.process.send_signal(signum)
        return self.process.wait(DEADLINE_S)


@pytest.fixture
def herald(clew):
    found = Herald(clew)
    yield found
    if found.process and found.process.poll() is None:
        found.end()


def blocked(clew):
    clew.drop(QUESTION)
    return clew.wait("goal.blocked")["goal"]


def test_metrics_are_what_promtool_expects(clew, herald):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed (Debian: prometheus)")
    clew.start()
    clew.wait("goal.completed", goal=clew.submit(RUNBOOK))
    goal = blocked(clew)
    herald.start()
    clew.until(lambda: herald.value("clew_needs_person") == 1, "the blocked goal is counted")
    clew.until(
        lambda: "clew_ledger_commit_seconds_count" in herald.get(), "the daemon's commit times"
    )
    text = herald.get()
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    assert 'clew_actions_total{result="success",verdict="allowed"} 12.0' in text
    assert goal not in text
    once = clew.cli("metrics")
    assert [line for line in once.splitlines() if "commit" not in line] == [
        line for line in text.splitlines() if "commit" not in line
    ]


def test_the_tree_of_spans_is_complete_after_five_kills(clew, herald, endpoint):
    herald.env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{endpoint.port}"}
    clew.start()
    herald.start()
    goal = clew.submit(RUNBOOK)
    for count in (1, 3, 5, 7, 9):
        clew.wait("action.finished", goal=goal, count=count)
        herald.end()
        herald.start()
    clew.wait("worker.exited", goal=goal)
    tools = {
        str(line["seq"]) for line in json.loads(clew.cli("history", goal, "--json"))["actions"]
    }
    assert len(tools) == 12
    kinds = ("invoke_workflow", "invoke_agent", "execute_tool")
    clew.until(lambda: len(by_id(endpoint.spans)) >= len(tools) + 2, "all spans have come")
    assert herald.value('clew_actions_total{result="success",verdict="allowed"}') == len(tools)
    found = by_id(endpoint.spans)
    calls = [
        a.value.string_value for s in found.values() for a in s.attributes if "call.id" in a.key
    ]
    assert sorted(calls) == sorted(tools)
    assert {span.name.split()[0] for span in found.values()} == set(kinds)
    assert len({span.trace_id for span in found.values()}) == 1
    roots = [span for span in found.values() if not span.parent_span_id]
    assert [span.name.split()[0] for span in roots] == ["invoke_workflow"]
    for span in found.values():
        assert not span.parent_span_id or span.parent_span_id in found
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano


def by_id(spans):
    """The spans by their ids; two of one id must be the same."""
    found = {}
    for span in spans:
        assert found.setdefault(span.span_id, span) == span
    return found


def test_a_blocked_goal_brings_one_message_with_its_question_and_the_answer(clew, herald, endpoint):
    herald.messages_to(endpoint.port)
    clew.start()
    herald.start()
    goal = blocked(clew)
    clew.until(lambda: endpoint.messages, "a message has come")
    clew.until(lambda: herald.event("message.sent"), "it is acknowledged")
    for _ in range(2):
        herald.end()
        herald.start()
        clew.until(lambda: herald.value("clew_needs_person") == 1, "it has caught up")
    [message] = endpoint.messages
    assert "needs you" in message["title"]
    assert f"clew continue {goal}" in message["message"]
    assert SECRET not in herald.out.read_text() + clew.log.read_text()


def test_a_message_cut_off_before_its_acknowledgement_comes_again(clew, herald, endpoint):
    herald.messages_to(endpoint.port)
    clew.start()
    endpoint.holds.set()
    herald.start()
    blocked(clew)
    clew.until(lambda: endpoint.messages, "a message has come")
    herald.end()
    endpoint.holds.clear()
    herald.start()
    clew.until(lambda: len(endpoint.messages) == 2, "the message has come again")
    clew.until(lambda: herald.event("message.sent"), "it is acknowledged")
    first, second = endpoint.messages
    assert first["message"] == second["message"]


def test_spans_wait_for_a_collector_that_is_down_and_the_doctor_says_so(clew, herald):
    down = Endpoint()
    down.close()
    herald.env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{down.port}/{SECRET}",
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {SECRET}",
    }
    clew.start()
    herald.start()
    clew.wait("worker.exited", goal=clew.submit(RUNBOOK))
    clew.until(lambda: herald.event("delivery.failed"), "it fails")
    health = clew.home / "state" / "herald.json"
    clew.until(lambda: health.exists() and "no connection" in health.read_text(), "it is told")
    found = json.loads(clew.clew("doctor", "--json", code=None).splitlines()[0])["checks"]
    [said] = [one for one in found if one["name"] == "herald" and one["level"] == "warn"]
    assert f"OTLP, 127.0.0.1:{down.port}" in said["found"]
    assert "no connection" in said["found"]
    up = Endpoint(down.port)
    try:
        clew.until(lambda: len(by_id(up.spans)) == 14, "the spans have come")
        assert {path for path, _ in up.received} == {f"/{SECRET}/v1/traces"}
    finally:
        up.close()
    said = json.dumps(found) + herald.out.read_text() + herald.get() + clew.log.read_text()
    assert SECRET not in said + health.read_text()


def test_it_counts_on_while_no_daemon_runs_and_when_the_next_one_does(clew, herald):
    clew.start()
    herald.start()
    clew.wait("goal.completed", goal=clew.submit(RUNBOOK))
    success = 'clew_actions_total{result="success",verdict="allowed"}'
    clew.until(lambda: herald.value(success) == 12, "the actions are counted")
    clew.kill()
    clew.until(lambda: herald.value("clew_daemon_up") == 0, "the daemon is missed")
    assert herald.value(success) == 12
    assert (herald.get("/healthz"), herald.get("/readyz")) == ("ok\n", "ok\n")
    clew.start()
    clew.wait("goal.completed", goal=clew.submit(RUNBOOK, "again.md"))
    clew.until(lambda: herald.value(success) == 24, "the others are counted, too")
    assert herald.end(signal.SIGTERM) == 0


@pytest.mark.cold
def test_a_second_herald_of_a_home_is_refused(clew, herald):
    herald.start()
    said = clew.clew("herald", code=1)
    assert f"process {herald.process.pid}" in said


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (f"json://me:{SECRET}@127.0.0.1/x\nnonsense://{SECRET}/\n", 0o600, "line 2 (nonsense://)"),
        (f"json://me:{SECRET}@127.0.0.1/x\n{SECRET}\n", 0o600, "line 2 (no scheme)"),
        (f"json://me:{SECRET}@127.0.0.1/x\n", 0o644, "chmod 600"),
    ],
)
def test_addresses_that_cannot_be_used_are_named_without_their_secret(
    clew, herald, text, mode, said
):
    herald.messages_to(1)
    urls = clew.home / "notify.urls"
    urls.write_text(text)
    urls.chmod(mode)
    answer = clew.clew("herald", code=78)
    assert said in answer
    assert SECRET not in answer
