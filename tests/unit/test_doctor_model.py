"""The model that the doctor proves coding agents with: an answer in the format of each."""

import gzip
import http.client
import json

import pytest

from clew_daemon.cli.commands.doctor import model as doctor_model
from clew_daemon.cli.commands.doctor.model import WIRES, Call, ScriptedModel

RUN, SHELL = Call("clew_run", {"cmd": "ls"}), Call("Bash", {})
MADE = {"messages": [{"role": "user"}, {"role": "assistant"}], "input": [{"role": "user"}]}
NAMES = {
    "/chat/completions": "clew_clew_run",
    "/responses": "clew_run",
    "/messages": "mcp__clew__clew_run",
}


@pytest.fixture
def model():
    with ScriptedModel([SHELL, RUN]) as found:
        yield found


def ask(model, path, body, method="POST", **headers):
    connection = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=30)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


@pytest.mark.parametrize("path", WIRES)
@pytest.mark.parametrize("stream", [True, False])
def test_each_request_gets_the_call_that_follows_those_in_its_conversation(model, path, stream):
    first = {"tools": [{}], "stream": stream, "model": "m"}
    second = first | MADE
    second["input"] = [{"role": "user"}, {"type": "function_call"}]
    if path == "/responses":
        del second["messages"]
    else:
        del second["input"]
    status, said = ask(model, f"/v1{path}", json.dumps(first))
    assert (status, '"Bash"' in said) == (200, True)
    for _ in range(2):  # a repeated request gets the same call again
        said = ask(model, f"/v1{path}", json.dumps(second))[1]
        assert f'"{NAMES[path]}"' in said
        assert ("data: " in said) == stream
    assert "Done." in ask(model, f"/v1{path}", json.dumps({"stream": stream}))[1]


def test_a_body_may_be_packed_or_in_chunks_and_any_other_is_refused(model):
    body = json.dumps({"tools": [{}]}).encode()
    packed = {"content-encoding": "gzip"}
    assert ask(model, "/messages", gzip.compress(body), **packed)[0] == 200
    assert ask(model, "/messages", iter([body[:5], body[5:]]))[0] == 200
    assert ask(model, "/messages", b"[]")[0] == 400
    assert ask(model, "/elsewhere", body)[0] == 404
    assert ask(model, "/messages/count_tokens", b"")[0] == 200
    assert ask(model, "/v1/models", None, "GET")[0] == 200


def test_an_agent_that_asks_without_end_gets_no_more_answers(model, monkeypatch):
    monkeypatch.setattr(doctor_model, "REQUESTS_MAX", 2)
    assert [ask(model, "/messages", b"{}")[0] for _ in range(3)] == [200, 200, 429]
