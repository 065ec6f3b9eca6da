"""The gateway and its relay, as a CLI starts it: real processes, lines of MCP."""

import asyncio
import json
import socket
import sys
from contextlib import asynccontextmanager

import pytest

from clew_shared.wire.nursery import CellSpec, SandboxSpec
from clew_worker.bridge import relay
from clew_worker.bridge.gateway import Gateway
from clew_worker.bridge.starter import PORT, SOCKET, open_gateway
from clew_worker.bridge.tools import OFFERED, ToolAnswer


async def echo(name, args):
    return ToolAnswer(f"{name} {json.dumps(args)}", refused=name == "clew_read")


def spec_of(tmp_path):
    home, tmp = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    tmp.mkdir()
    sandbox = SandboxSpec(workspace=str(tmp_path), private=(str(home), str(tmp)), ports=(443,))
    return CellSpec(kind="cli", sandbox=sandbox, cwd=str(tmp_path), argv=("coder",)), tmp


def token(tmp):
    place = tmp / PORT
    return place.read_text().split()[1] if place.exists() else ""


class Client:
    """A program that speaks to the relay as a CLI does."""

    def __init__(self, process):
        self.process = process
        self.asked = 0

    async def ask(self, method, **params):
        self.asked += 1
        self.send({"id": self.asked, "method": method, "params": params})
        while line := await self.process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self.asked:
                return answer
        return None

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def hello(self):
        info = {"name": "test", "version": "1"}
        answer = await self.ask(
            "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info
        )
        self.send({"method": "notifications/initialized"})
        return answer


@asynccontextmanager
async def relayed(folder):
    command = [sys.executable, "-I", "-S", relay.__file__, str(folder)]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield Client(process)
    finally:
        process.stdin.close()
        async with asyncio.timeout(60):
            await process.wait()


@pytest.mark.parametrize("unix", [True, False])
async def test_the_tools_are_offered_and_calls_passed_on(tmp_path, unix):
    spec, tmp = spec_of(tmp_path)
    spec, listener = open_gateway(spec, unix=unix)
    async with Gateway(listener, echo, token(tmp)), relayed(tmp) as client:
        await client.hello()
        offered = (await client.ask("tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in offered] == [tool.name for tool in OFFERED]
        done = await client.ask("tools/call", name="clew_run", arguments={"cmd": "ls"})
        assert done["result"]["content"][0]["text"] == 'clew_run {"cmd": "ls"}'
        assert not done["result"]["isError"]
        refused = await client.ask("tools/call", name="clew_read", arguments={})
        assert refused["result"]["isError"]
    assert spec.sandbox.ports == ((443,) if unix else (443, *spec.sandbox.ports[1:]))


def test_the_folder_that_a_cell_stands_in_is_left_alone_also_where_its_path_is_gone(
    tmp_path, monkeypatch
):
    spec, tmp = spec_of(tmp_path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    with open_gateway(spec, unix=True)[1]:
        assert (tmp / SOCKET).is_socket()


async def test_a_port_admits_only_what_knows_the_token(tmp_path):
    spec, tmp = spec_of(tmp_path)
    spec, listener = open_gateway(spec, unix=False)
    async with Gateway(listener, echo, token(tmp)):
        with socket.create_connection(("127.0.0.1", spec.sandbox.ports[-1])) as stranger:
            stranger.sendall(b"guess\n")
            stranger.setblocking(False)
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(60):
                assert await loop.sock_recv(stranger, 1) == b""


async def test_a_relay_that_is_killed_in_a_call_is_lost_and_one_that_closes_after_it_is_not(
    tmp_path,
):
    spec, tmp = spec_of(tmp_path)
    _, listener = open_gateway(spec, unix=True)
    called = asyncio.Event()

    async def endless(_name, _args):
        called.set()
        await asyncio.Event().wait()

    async with Gateway(listener, endless) as gateway:
        relays = gateway.begin()
        async with relayed(tmp) as client:
            await client.hello()
        assert not relays.lost.is_set()
        async with relayed(tmp) as client:
            await client.hello()
            client.send({"id": 9, "method": "tools/call", "params": {"name": "clew_run"}})
            await called.wait()
            client.process.kill()
            await client.process.wait()
            async with relayed(tmp) as another, asyncio.timeout(60):
                await another.hello()
                await relays.lost.wait()


async def test_relays_may_follow_each_other_and_are_lost_only_when_no_other_comes(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("clew_worker.bridge.gateway.WITHOUT_RELAY_S", 1.0)
    spec, tmp = spec_of(tmp_path)
    _, listener = open_gateway(spec, unix=True)
    async with Gateway(listener, echo) as gateway, asyncio.timeout(60):
        relays = gateway.begin()
        for _ in range(40):
            reader, writer = await asyncio.open_unix_connection(tmp / SOCKET)
            writer.write(b'{"id": 1, "method": "ping"}\n')
            assert await reader.readline()
            writer.close()
            await asyncio.sleep(0.05)
        assert not relays.lost.is_set()
        await relays.lost.wait()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_client_of_the_official_library_is_content(tmp_path, mode):
    """In the mode `auto` it tries the revision of 2026 first, which has no handshake."""
    import mcp
    from mcp.client.stdio import StdioServerParameters, stdio_client

    spec, tmp = spec_of(tmp_path)
    _, listener = open_gateway(spec, unix=True)
    server = StdioServerParameters(
        command=sys.executable, args=["-I", "-S", relay.__file__, str(tmp)]
    )
    async with Gateway(listener, echo), mcp.Client(stdio_client(server), mode=mode) as client:
        offered = await client.list_tools()
        assert [tool.name for tool in offered.tools] == [tool.name for tool in OFFERED]
        done = await client.call_tool("clew_run", {"cmd": "ls"})
        assert done.content[0].text == 'clew_run {"cmd": "ls"}'


NO_MESSAGES = [
    (b"{", -32700),
    (b"[" * 100_000, -32700),
    (b"[]", -32600),
    (b'{"id": true, "method": "ping"}', -32600),
    (b'{"id": 1, "method": ["ping"]}', -32600),
    (b'{"id": 1, "method": "pong"}', -32601),
    (b'{"id": 1, "method": "ping", "params": [1]}', -32600),
    (b'{"id": 1, "method": "tools/call", "params": {"name": 1}}', -32602),
    (b'{"id": 1, "method": "tools/call", "params": {"name": "x", "arguments": "y"}}', -32602),
    (b'{"id": 1, "result": {}}\n{"id": 2, "method": "ping"}', None),
]


async def test_a_message_that_is_none_gets_an_error_and_the_conversation_goes_on(tmp_path):
    spec, tmp = spec_of(tmp_path)
    _, listener = open_gateway(spec, unix=True)
    async with Gateway(listener, echo), relayed(tmp) as client:
        await client.hello()
        for line, code in NO_MESSAGES:
            client.process.stdin.write(line + b"\n")
            answer = json.loads(await client.process.stdout.readline())
            assert answer.get("error", {}).get("code") == code, line
            assert (await client.ask("ping"))["result"] == {}, line


async def test_a_call_that_is_given_up_before_its_turn_is_not_carried_out(tmp_path):
    spec, tmp = spec_of(tmp_path)
    _, listener = open_gateway(spec, unix=True)
    turns, carried_out = asyncio.Lock(), []

    async def slow(name, args):
        async with turns:
            carried_out.append(name)
            return await echo(name, args)

    async with Gateway(listener, slow), relayed(tmp) as client:
        await client.hello()
        async with turns:
            client.send({"id": "a", "method": "tools/call", "params": {"name": "clew_run"}})
            client.send({"method": "notifications/cancelled", "params": {"requestId": "a"}})
            assert (await client.ask("ping"))["result"] == {}
        assert "result" in await client.ask("tools/call", name="clew_read")
    assert carried_out == ["clew_read"]
