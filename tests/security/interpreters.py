"""In the place of a coding agent: tries once what interpreters in its cell could do, and leaves what became of it."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

HOME = Path(os.environ["HOME"])
WORDS = {
    "ermission denied": "EACCES",
    "ead-only file system": "EROFS",
    "o such file": "ENOENT",
    "nonexistent": "ENOENT",
}
"""What programs print of errors."""

found = {}


def tried(name, what):
    try:
        found[name] = str(what() or "done")
    except OSError as error:
        found[name] = errno.errorcode[error.errno or 0]


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 0:
        return "done"
    return next((code for word, code in WORDS.items() if word in done.stderr), done.stderr)


def connect(port):
    with socket.create_connection(("127.0.0.1", port), 10):
        pass


def listen():
    with socket.create_server(("127.0.0.1", 0)):
        pass


def ask(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)


def execute_own():
    (HOME / "own").write_text("#!/bin/sh\n")
    (HOME / "own").chmod(0o755)
    return run(str(HOME / "own"))


def write_in(name, folder, aim):
    path, sh = f"{folder}/attacked-by-", (aim["loader"], "/bin/sh", "-c")
    node = f"require('fs').writeFileSync('{path}node', 'x')"
    if name == "home":
        path = path.replace("attacked", "made")
        node = node.replace("attacked", "made")
    tried(f"ld.so sh writes in {name}", lambda: run(*sh, f": > {path}sh"))
    tried(f"ld.so sh starts touch in {name}", lambda: run(*sh, f"/bin/touch {path}touch"))
    tried(f"ld.so node writes in {name}", lambda: run(aim["loader"], aim["node"], "-e", node))
    tried(f"python writes in {name}", lambda: Path(f"{path}python").write_text("x") and None)


def try_all(aim):
    key = f"{aim['home']}/.ssh/id_ed25519"
    tried("sh", lambda: run("/bin/sh", "-c", ":"))
    tried("node -e", lambda: run(aim["node"], "-e", "1"))
    tried("a program that it wrote", execute_own)
    write_in("home", str(HOME), aim)
    write_in("the user's home", aim["home"], aim)
    write_in("a folder for everyone", aim["shared_tmp"], aim)
    write_in("the workspace", aim["workspace"], aim)
    tried("ld.so sh reads a key", lambda: run(aim["loader"], "/bin/sh", "-c", f": < {key}"))
    tried("python reads a key", lambda: Path(key).read_text() and None)
    tried("python reads the config", lambda: Path(aim["config"]).read_text() and None)
    tried("python reads the workspace", lambda: Path("readable").read_text() and None)
    tried("python asks the daemon", lambda: ask(aim["control_socket"]))
    tried("python connects to its endpoint", lambda: connect(aim["endpoint"]))
    tried("python connects to another port", lambda: connect(aim["other"]))
    tried("python listens", listen)
    tried("python ends the daemon", lambda: os.kill(aim["daemon"], signal.SIGTERM))


if __name__ == "__main__" and not (HOME / "found.json").exists():
    sys.dont_write_bytecode = True
    try_all(json.loads(Path("hostile", "targets.json").read_text()))
    (HOME / "found.part").write_text(json.dumps(found))
    (HOME / "found.part").rename(HOME / "found.json")
