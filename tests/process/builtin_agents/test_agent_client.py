import asyncio
import socket

import pytest
from goal_daemon import GoalDaemon

from clew_worker.agent import AgentClient, Disconnected


@pytest.fixture
def daemon(tmp_path):
    return GoalDaemon(tmp_path)


async def test_it_beats_from_hello_on(daemon, connect):
    daemon.heartbeat_s = 0.01
    async with connect(daemon) as sock, AgentClient(sock) as client:
        assert daemon.count("heartbeat") == 0
        await client.hello("mine/1")
        await daemon.until(lambda: daemon.count("heartbeat") >= 3)


async def test_calls_at_the_same_time_get_their_own_answers(daemon, connect):
    async with connect(daemon) as sock, AgentClient(sock) as client:
        texts = [f"echo {n}" for n in range(20)]
        asked = (client.call("act", tool="run_cmd", args={"cmd": t}) for t in texts)
        answers = await asyncio.gather(*asked)
    assert [a["outcome"]["output"] for a in answers] == [f"{n}\n" for n in range(20)]


async def test_a_message_that_is_too_long_is_not_sent(daemon, connect):
    async with connect(daemon) as sock, AgentClient(sock) as client:
        with pytest.raises(ValueError, match="smaller arguments"):
            await client.call("act", tool="write_file", args={"content": "x" * (1 << 20)})
        assert daemon.heard == []
        await client.hello("mine/1")


@pytest.mark.parametrize("line", [b"", b"nonsense\n", b"x" * (1 << 21) + b"\n"])
async def test_a_daemon_that_hangs_up_or_talks_nonsense_ends_every_call(line):
    ours, theirs = socket.socketpair()
    _, writer = await asyncio.open_connection(sock=ours)
    async with AgentClient(theirs) as client:
        call = asyncio.create_task(client.call("advance"))
        await asyncio.sleep(0)
        writer.write(line)
        if not line:
            writer.close()
        with pytest.raises(Disconnected):
            await call
        with pytest.raises(Disconnected):
            await client.call("advance")
    writer.close()


async def test_notifications_reach_whoever_listens_for_them(daemon, connect):
    heard = asyncio.Queue()
    async with connect(daemon) as sock, AgentClient(sock) as client:
        client.on("feedback", heard.put_nowait)
        await client.hello("mine/1")
        daemon.notify("feedback", text="well done")
        daemon.notify("unheard_of", text="never mind")
        async with asyncio.timeout(60):
            assert await heard.get() == {"text": "well done"}
