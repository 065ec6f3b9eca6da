"""A real `clew web` on a free port of loopback, and requests to it with any headers."""

import http.client
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

DEADLINE_S = 60.0


@dataclass
class Answer:
    status: int
    headers: dict
    body: str


class WebServer:
    def __init__(self, clew, *options):
        self.clew = clew
        self.options = ("--listen", "127.0.0.1:0", *options)
        self.process = None
        self.link = self.cookie = ""
        self.port = 0

    def start(self, **env):
        command = self.clew.command("web", *self.options)
        self.process, self.printed = self.clew.beside(command, **env)
        line = self.printed.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + self.printed.read()
        self.link = found[0]
        self.port = urlsplit(self.link).port
        return self

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    def stop(self):
        """End it; its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(DEADLINE_S)
        self.printed.close()
        return code

    def open(self):
        """Open a session with the first link."""
        answer = self.get(urlsplit(self.link).path)
        assert answer.status == 303, answer
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        self.prefix = answer.headers["location"].rstrip("/")
        return self

    def request(self, method, path, body=None, **headers):
        """Send a request with these headers; one that is None is left out."""
        given = {"host": self.host, "cookie": self.cookie or None}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            given.setdefault("content-length", str(len(body)))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                for one in value if isinstance(value, list) else [value]:
                    if one is not None:
                        connection.putheader(name, one)
            connection.endheaders(body.encode() if body is not None else None)
            got = connection.getresponse()
            named = {name.lower(): value for name, value in got.getheaders()}
            return Answer(got.status, named, got.read().decode())
        finally:
            connection.close()

    def get(self, path="/", **headers):
        return self.request("GET", path, **headers)

    def page(self, path="/", **headers):
        """Get a page below the prefix."""
        return self.get(self.prefix + path, **headers)
