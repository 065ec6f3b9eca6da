"""Goals with real coding agents, each against a scripted endpoint on loopback, with an empty HOME and no account."""

from pathlib import Path

import harness
import installed as agents
import pytest
from scripted_endpoint import ScriptedEndpoint

GOAL = """\
---
agent: coder
checks:
  both: test -f a.txt && test -f b.txt
---
# Write two files
## Files
- [ ] Write a.txt
- [ ] Write b.txt
"""


class Coder:
    """A clew home with one coding agent, and the endpoint that plays its model."""

    def __init__(self, clew, endpoint, cli):
        self.clew, self.endpoint = clew, endpoint
        agent = {
            "kind": "cli",
            "cli": cli,
            "program": str(agents.installed(cli)),
            "model": "m",
            "base_url": endpoint.url + agents.BASE[cli],
        }
        clew.configure({f"agents.coder.{key}": value for key, value in agent.items()})
        clew.configure({"sandbox.mode": "enforce"})

    def submit(self, text=GOAL):
        return self.clew.submit(text)

    def texts(self):
        """All results of tools that the CLI has sent to its model."""
        return [text for one in self.endpoint.talks for text in one.results]


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Coding agents are large programs: a busy machine takes a minute to start one."""
    monkeypatch.setattr(harness, "DEADLINE_S", 240.0)


def pytest_collection_modifyitems(items):
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(params=agents.NAMES)
def cli(request):
    agents.installed(request.param)
    return request.param


@pytest.fixture
def installed(cli):
    """The path of the CLI's program."""
    return agents.installed(cli)


@pytest.fixture
def coder(cli, make_clew):
    """Give a function that makes a started home from the script of the model."""
    opened = []

    def make(script, **keys):
        endpoint = ScriptedEndpoint(script)
        opened.append(endpoint)
        endpoint.__enter__()
        made = Coder(make_clew(), endpoint, cli)
        made.clew.configure(keys)
        made.clew.start()
        return made

    yield make
    for endpoint in opened:
        endpoint.__exit__()
