"""s6, from Debian's packages, unpacked beside the libraries that it needs.

Debian builds s6-svscan to start /usr/bin/s6-supervise. In the unpacked copy that path is made a bare name, which it
looks for on PATH; nothing else of it is touched.
"""

from __future__ import annotations

import os

from bench.peers import install
from bench.peers.peer import Child, Peer
from bench.peers.runit import services

PACKAGES = ("s6", "execline", "libs6-2.11", "libexecline2.9", "libskarnet2.13")
BUILT = b"/usr/bin/s6-supervise\0"
ON_PATH = b"s6-supervise\0".ljust(len(BUILT), b"\0")


class S6(Peer):
    name, key = "s6", "s6"
    watcher = "s6-supervise"
    setting = "always restarts; at least a second between two starts"

    def install(self) -> str:
        self._root = install.debian("s6", *PACKAGES)
        scan = self._root / "usr/bin/s6-svscan"
        scan.write_bytes(scan.read_bytes().replace(BUILT, ON_PATH))
        return install.debian_version("s6", "s6")

    def begin(self, children: list[Child]) -> None:
        found = services(self.fresh("service"), children, "unset LD_LIBRARY_PATH\n")
        bins, libs = self._root / "usr/bin", self._root / "usr/lib/x86_64-linux-gnu"
        path = f"{bins}:{os.environ['PATH']}"
        self.launch(str(bins / "s6-svscan"), str(found), PATH=path, LD_LIBRARY_PATH=str(libs))
