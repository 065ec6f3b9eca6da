"""What an interpreter in the cell of a coding agent's CLI reaches: its HOME, and the port of its endpoint."""

import shutil
import socket

import pytest
from attack_life import HERE, ORDINARY_UID, REFUSALS, Life
from test_attacks import circumstances

from clew_worker import sandbox
from clew_worker.sandbox import grants

pytestmark = [
    pytest.mark.xdist_group("an ordinary user"),
    pytest.mark.skipif(sandbox.landlock.abi() < 6, reason="needs Landlock ABI 6"),
    pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed"),
]
POSSIBLE = {
    "ld.so sh writes in home", "ld.so node writes in home", "python writes in home",
    "python reads the workspace", "python connects to its endpoint",
}  # fmt: skip
"""As docs/security.md says."""


class InterpretedLife(Life):
    """A life in which a program of ours is in the place of Codex."""

    def __init__(self, how, endpoint, other):
        super().__init__(how)
        self._ports = {"endpoint": endpoint, "other": other}

    def _add_agents(self):
        super()._add_agents()
        agent = {"base_url": f"http://127.0.0.1:{self._ports['endpoint']}/v1", "model": "m"}
        self.clew.configure({f"agents.cli.{key}": value for key, value in agent.items()})
        self.workspace("cli").joinpath("readable").write_text("readable")
        program = (HERE / "interpreters.py").read_text()
        (self.base / "codex").write_text(f"#!{grants.own_python()} -I\n{program}")

    def targets(self, role):
        loader = grants.chain(grants.own_python(), "/", "")[-1]
        return {
            **super().targets(role),
            **self._ports,
            "loader": loader,
            "node": shutil.which("node"),
        }


@pytest.fixture
def ports():
    """Two ports of the loopback on which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as b:
        yield one.getsockname()[1], b.getsockname()[1]


@pytest.mark.parametrize("isolation", ["pidns", pytest.param("guard", marks=pytest.mark.long)])
@pytest.mark.parametrize("uid", [0, pytest.param(ORDINARY_UID, marks=pytest.mark.long)])
def test_an_interpreter_in_the_cell_of_a_coding_agent_reaches_its_home_and_its_endpoint_only(
    uid, isolation, ports
):
    with InterpretedLife(circumstances(uid, isolation, network=True), *ports) as life:
        found = life.attacked_by_cli()
        assert {name for name, became in found.items() if became == "done"} == POSSIBLE, found
        refused = {name: became for name, became in found.items() if name not in POSSIBLE}
        assert {name: became for name, became in refused.items() if became not in REFUSALS} == {}
        assert life.damage() == []
