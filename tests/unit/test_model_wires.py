"""The endpoint of the doctor: what coding agents send to their models, and the answers in their formats."""

import gzip
import http.client
import json

import pytest

from clew_daemon.cli.commands.doctor.proof import endpoint as endpoint_module
from clew_daemon.cli.commands.doctor.proof.endpoint import ModelEndpoint
from clew_daemon.cli.commands.doctor.proof.wires import WIRES, ModelCall, ModelText, wire_of

CHAT, RESPONSES, MESSAGES = WIRES
RUN, SHELL, SAY = ModelCall("clew_run", {"cmd": "ls"}), ModelCall("Bash"), ModelText("Hello")
TALKS = {
    "/chat/completions": {
        "model": "m",
        "tools": [{"type": "function", "function": {"name": "clew_clew_run"}}],
        "messages": [{"role": "user"}, {"role": "assistant"}, {"role": "tool"}],
    },
    "/responses": {
        "model": "m",
        "tools": [
            {"type": "function", "name": "shell"},
            {"type": "namespace", "name": "mcp__clew", "tools": [{"name": "clew_run"}]},
            {"type": "web_search"},
        ],
        "input": [
            {"role": "user"},
            {"type": "function_call"},
            {"type": "function_call_output", "output": "x"},
        ],
    },
    "/messages": {
        "model": "m",
        "tools": [{"name": "mcp__clew__clew_run"}],
        "messages": [{"role": "user"}, {"role": "assistant"}, {"role": "user"}],
    },
}
OFFERED = {
    "/chat/completions": ("clew_clew_run",),
    "/responses": ("shell", "mcp__clew__clew_run", "web_search"),
    "/messages": ("mcp__clew__clew_run",),
}


def events(answer):
    data = [line[6:] for line in answer.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(one) for one in data if one != "[DONE]"]


def body(wire, *, stream=True):
    return {**TALKS[wire.path], "stream": stream}


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.path)
def test_a_request_says_which_tools_are_offered_and_how_often_the_model_has_moved(wire):
    request = wire.read(body(wire))
    assert (request.model, request.stream, request.moves) == ("m", True, 1)
    assert request.tools == OFFERED[wire.path]


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.path)
@pytest.mark.parametrize(
    "wrong",
    [{}, {"tools": 1}, {"tools": [1, None]}, {"tools": [{}], "messages": [{}], "input": [{}]},
     {"tools": [{"function": 1, "type": "namespace", "tools": {}}], "input": "text"}],
)  # fmt: skip
def test_a_request_of_any_other_form_is_read_as_far_as_it_goes(wire, wrong):
    request = wire.read(wrong)
    assert wire.write(request, SAY)


@pytest.mark.parametrize("move", [RUN, SHELL, SAY])
def test_chat_completions_are_answered_in_chunks_or_whole(move):
    chunks = events(CHAT.write(CHAT.read(body(CHAT)), move))
    assert [one["object"] for one in chunks] == ["chat.completion.chunk"] * 3
    whole = json.loads(CHAT.write(CHAT.read(body(CHAT, stream=False)), move))
    assert chunks[0]["choices"][0]["delta"] == whole["choices"][0]["message"]
    assert chunks[2]["usage"]["total_tokens"] == 110


def test_each_wire_calls_the_tools_of_clew_by_the_agents_names_for_them():
    delta = events(CHAT.write(CHAT.read(body(CHAT)), RUN))[0]["choices"][0]["delta"]
    assert delta["tool_calls"][0]["function"]["name"] == "clew_clew_run"
    item = events(RESPONSES.write(RESPONSES.read(body(RESPONSES)), RUN))[2]["item"]
    assert (item["namespace"], item["name"]) == ("mcp__clew", "clew_run")
    assert json.loads(item["arguments"]) == {"cmd": "ls"}
    block = events(MESSAGES.write(MESSAGES.read(body(MESSAGES)), RUN))[1]["content_block"]
    assert block["name"] == "mcp__clew__clew_run"


def test_tools_of_the_agent_are_called_by_their_own_names():
    delta = events(CHAT.write(CHAT.read(body(CHAT)), SHELL))[0]["choices"][0]["delta"]
    assert delta["tool_calls"][0]["function"]["name"] == "Bash"
    item = events(RESPONSES.write(RESPONSES.read(body(RESPONSES)), SHELL))[2]["item"]
    assert (item["name"], "namespace" in item) == ("Bash", False)
    block = events(MESSAGES.write(MESSAGES.read(body(MESSAGES)), SHELL))[1]["content_block"]
    assert (block["type"], block["name"]) == ("tool_use", "Bash")


def test_a_text_ends_the_turn_in_each_wire():
    assert (
        events(CHAT.write(CHAT.read(body(CHAT)), SAY))[1]["choices"][0]["finish_reason"] == "stop"
    )
    item = events(RESPONSES.write(RESPONSES.read(body(RESPONSES)), SAY))[2]["item"]
    assert item["content"][0]["text"] == "Hello"
    told = events(MESSAGES.write(MESSAGES.read(body(MESSAGES)), SAY))
    assert told[2]["delta"] == {"type": "text_delta", "text": "Hello"}
    assert told[4]["delta"]["stop_reason"] == "end_turn"


def test_a_path_of_no_wire_has_none():
    assert wire_of("/v1/messages?beta=true") is MESSAGES
    assert wire_of("/openai/v1/chat/completions") is CHAT
    assert wire_of("/v1/models") is None


class Client:
    def __init__(self, endpoint):
        self._connection = http.client.HTTPConnection(
            endpoint.url.removeprefix("http://"), timeout=30
        )

    def send(self, method, path, data=None, **headers):
        self._connection.request(
            method, path, data, headers, encode_chunked="transfer-encoding" in headers
        )
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def post(self, wire, **changed):
        return self.send("POST", f"/v1{wire.path}", json.dumps(body(wire) | changed).encode())

    def close(self):
        self._connection.close()


@pytest.fixture
def played():
    with ModelEndpoint([RUN, SHELL]) as endpoint:
        client = Client(endpoint)
        yield endpoint, client
        client.close()


def test_the_moves_are_played_in_the_order_of_the_conversation(played):
    endpoint, client = played
    messages = [{"role": "user"}]
    found = []
    for _ in range(3):
        _, answer = client.post(CHAT, messages=messages)
        found.append(events(answer)[0]["choices"][0]["delta"])
        messages = [*messages, {"role": "assistant"}]
    names = [one["tool_calls"][0]["function"]["name"] for one in found[:2]]
    assert names == ["clew_clew_run", "Bash"]
    assert found[2]["content"] == "Done."
    assert [request.moves for request in endpoint.requests] == [0, 1, 2]


def test_a_request_beside_the_conversation_gets_a_text_and_does_not_count(played):
    endpoint, client = played
    _, answer = client.post(MESSAGES, tools=[])
    assert events(answer)[2]["delta"]["text"] == "Done."
    assert endpoint.requests == []


def test_compressed_and_chunked_requests_are_read(played):
    endpoint, client = played
    data = gzip.compress(json.dumps(body(RESPONSES)).encode())
    path = "/v1/responses"
    assert client.send("POST", path, data, **{"content-encoding": "gzip"})[0] == 200
    parts = iter([b'{"tools": [{"name": "x"}', b"]}"])
    assert client.send("POST", path, parts, **{"transfer-encoding": "chunked"})[0] == 200
    assert [len(request.tools) for request in endpoint.requests] == [3, 1]


def test_models_and_tokens_are_answered_and_everything_else_is_refused(played):
    endpoint, client = played
    assert json.loads(client.send("GET", "/v1/models")[1])["data"][0]["id"] == "m"
    assert client.send("HEAD", "/")[0] == 200
    assert client.send("POST", "/v1/messages/count_tokens", b"{}")[0] == 200
    assert client.send("POST", "/v1/embeddings", b"{}")[0] == 404
    assert client.send("POST", "/v1/messages", b"not JSON")[0] == 400
    assert client.send("POST", "/v1/messages", b"[" * 100_000)[0] == 400
    assert endpoint.requests == []


def test_an_agent_that_asks_without_end_is_refused(played, monkeypatch):
    endpoint, client = played
    monkeypatch.setattr(endpoint_module, "REQUESTS_MAX", 2)
    assert [client.post(CHAT)[0] for _ in range(3)] == [200, 200, 429]
    assert len(endpoint.requests) == 2
