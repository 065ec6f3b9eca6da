"""`clew doctor` says whether the sandbox holds a coding agent here."""

import pytest

from clew_daemon.cli.commands.doctor.agents import confined
from clew_shared.config.tables import SandboxSettings
from clew_shared.wire.nursery import SandboxReport


def report(abi=7, network_off="netns"):
    return SandboxReport(
        landlock_abi=abi,
        scopes=abi >= 6,
        isolation="pidns",
        userns=True,
        network_off=network_off,
        seccomp=True,
    )


@pytest.mark.parametrize(
    ("table", "probed", "level"),
    [
        ({}, report(), "ok"),
        ({}, report(3), "warn"),
        ({}, report(0), "fail"),
        ({}, None, "warn"),
        ({"mode": "best_effort"}, report(0), "warn"),
        ({"mode": "off"}, report(), "warn"),
        ({"network": False}, report(7, "none"), "fail"),
    ],
)
def test_whether_the_sandbox_holds_follows_from_the_mode_and_the_kernel(table, probed, level):
    assert confined("agent", SandboxSettings(**table), probed).level == level
