"""How a model made its calls in recent goals: kept in the ledger, shown, and advised on by doctor and report."""

import itertools
import json

from llm_server import ScriptedLlm, calls

TURNS = 12


class Clumsy(ScriptedLlm):
    """Looks at something new each turn; every third call cannot be read. It gives up after some turns."""

    numbers = itertools.count(1)

    def next_reply(self, body, headers):
        number = next(self.numbers)
        if number % TURNS == 0:
            self.then = calls(("finish", {"success": False}))
        elif number % 3 == 0:
            self.then = calls(("run_cmd", '{"cmd": "echo'))
        else:
            self.then = calls(("run_cmd", {"cmd": f"echo {number}"}))
        return super().next_reply(body, headers)


def models(clew):
    return json.loads(clew.clew("playbook", "models", "--json"))["models"]


def give_up(clew, number):
    goal = clew.submit("# Look around\n", f"look_{number}.md")
    clew.wait("model.used", goal=goal)
    return goal


def test_calls_that_cannot_be_read_are_counted_shown_and_advised_on_and_nothing_is_changed(clew):
    with Clumsy() as llm:
        table = 'context.models."clum*"'
        agent = {"kind": "llm", "base_url": llm.base_url, "model": "clumsy"}
        clew.configure({f"agents.clumsy.{key}": value for key, value in agent.items()})
        clew.configure({f"{table}.mode": "tools", "attempts.iterations": 50})
        clew.start()
        give_up(clew, 1)
        [first] = models(clew)
        assert (first["goals"], first["enough"], first["advice"]) == (1, False, [])
        assert (first["calls"], first["malformed"]) == (8, 3)
        clew.kill()
        clew.start()
        for number in range(2, 5):
            give_up(clew, number)
        goal = give_up(clew, 5)
        report = clew.report(goal)
        [now] = models(clew)
        doctor = json.loads(clew.clew("doctor", "--json", code=1))
        assert all("tools" in request for request in llm.requests)
    assert now["model"] == f"clumsy@127.0.0.1:{llm.port}"
    assert (now["goals"], now["calls"], now["malformed"]) == (5, 40, 15)
    assert [(one["key"], one["value"]) for one in now["advice"]] == [("mode", "json")]
    assert '    [context.models."clumsy*"]\n    mode = "json"\n' in report
    assert "native calls of its last" in report
    [found] = [one for one in doctor["checks"] if one["name"] == f"model {now['model']}"]
    assert 'mode = "json"' in found["mend"]
    assert 'mode = "tools"' in (clew.home / "config.toml").read_text()
    assert clew.verified()
