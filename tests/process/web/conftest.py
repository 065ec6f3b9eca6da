"""A `clew web` of a test's own, beside the daemon of its home."""

import pytest
from harness import Clew
from web_server import WebServer


@pytest.fixture
def served(clew):
    """A function that starts a server for the home of `clew`, with options."""
    made = []

    def start(*options):
        made.append(WebServer(clew, *options).start())
        return made[-1]

    yield start
    for server in made:
        server.stop()


@pytest.fixture
def web(clew, served):
    """A server for the home of `clew`; its daemon runs."""
    clew.start()
    return served()


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """A server with an open session, for a home without a daemon and without goals; for tests that change nothing."""
    server = WebServer(Clew(tmp_path_factory.mktemp("calm"))).start()  # as a program, not forked
    yield server.open()
    server.stop()
