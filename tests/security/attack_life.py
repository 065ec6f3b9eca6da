"""One life of a real daemon under attack: its home, the user's files around it, a bystander, and goals that attack.

The tests look at what the attackers said, and at what is so outside; which attack means what stands in `attack`.
"""

import contextlib
import ctypes
import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import attack
import psutil
from harness import DEADLINE_S, Clew
from of_proc import become_subreaper, nursery, running

from clew_worker.sandbox import grants

HERE = Path(__file__).parent
ORDINARY_UID = 4242
ROLES = ("builtin", "agent", "executor", "own_tools")
PROGRAM = (
    "attack.py", "attack_files.py", "attack_keys.py", "attack_kernel.py",
    "attack_processes.py", "attack_sockets.py",
)  # fmt: skip
KEY = "sk-test-4f9c1d77e0b24a6f9b3c"
REFUSALS = {
    *("EPERM", "EACCES", "EROFS", "EXDEV", "ENOSYS", "EAFNOSUPPORT"),
    *("ENOENT", "ESRCH", "ECONNREFUSED"),  # out of sight in namespaces
}

CLI = """\
#!{python} -I
# A hostile program in the place of Codex: it attacks once, leaves what became of it in its HOME, and says nothing.
import json, os, sys
sys.path.insert(0, "{hostile}")
import attack
found = os.path.join(os.environ["HOME"], "found.json")
if not os.path.exists(found):
    attack.load()
    with open("{hostile}/targets.json") as file:
        targets = json.load(file)
    said = attack.perform_all("cli", targets)
    with open(found + ".part", "w") as out:
        json.dump(said, out)
    os.rename(found + ".part", found)
"""
PLAYED = """
    import sys
    sys.path.insert(0, "hostile")
    import attack, json
    targets = json.load(open("hostile/targets.json"))
    hello()
    attack.load()
    for name, said in attack.perform_all({role!r}, targets).items():
        say([name, said])
    done()
"""


@dataclass
class Circumstances:
    """Who runs the daemon, what isolates its workers, and whether they may use the network."""

    uid: int  # 0, or that of an ordinary user
    isolation: str
    network: bool
    mode: str = "enforce"

    @property
    def where(self):
        found = ["user" if self.uid else "root", self.isolation]
        return found if self.network else [*found, "offline"]


class Life:
    """A daemon with everything around it; use it as a context."""

    def __init__(self, circumstances, agents=None, **config):
        self.how = circumstances
        self.agents, self.config = agents or {}, config
        self.clew = self.bystander = None
        self.base = Path(tempfile.mkdtemp(prefix="clew-attack-", dir="/var/tmp"))
        self.marker = f"left-by-an-attack-{secrets.token_hex(4)}"
        self.shm = Path(f"/dev/shm/{self.base.name}")

    def __enter__(self):
        become_subreaper()
        with contextlib.ExitStack() as undo:
            undo.callback(self._clear_away)
            self._start()
            undo.pop_all()
        return self

    def __exit__(self, *_exc):
        try:
            self.clew.close()
            self.clew.assert_alone()
        finally:
            self._clear_away()

    def _start(self):
        self._furnish()
        self.clew = Clew(self.base, self._config())
        self._add_agents()
        self._give_away()
        self._start_bystander()
        path = {"PYTHONPATH": str(self.base / "startup"), "ATTACK_TEST_KEY": KEY}
        self.clew.start(under=self._as_user(), HOME=str(self.base / "user"), **path)
        self.daemon_before = self._traits(self.clew.daemon.pid)
        self._let_another_goal_work()

    def _clear_away(self):
        if self.clew is not None:
            self.clew.close()
        if self.bystander is not None:
            with contextlib.suppress(OSError):
                self.bystander.stdin.close()
            self.bystander.wait(DEADLINE_S)
            self.bystander.stdout.close()
        become_subreaper(on=False)
        self.shm.unlink(missing_ok=True)
        shutil.rmtree(self.base)

    # -- before

    def _furnish(self):
        """The user's own files, each with a content that is known."""
        user = self.base / "user"
        for folder in (".ssh", ".config/systemd/user", "movable", "exchangeable"):
            (user / folder).mkdir(parents=True)
        (user / ".ssh" / "id_ed25519").write_text("the key of the user")
        (user / ".ssh" / "id_ed25519").chmod(0o600)
        (user / ".ssh" / "authorized_keys").write_text("friends")
        (user / ".bashrc").write_text("# as it was")
        (self.base / "tmp").mkdir()
        (self.base / "tmp").chmod(0o1777)
        shutil.copytree(
            HERE / "startup", self.base / "startup", ignore=shutil.ignore_patterns("__pycache__")
        )
        if self.how.isolation == "guard":
            (self.base / "startup" / "guard").touch()
        self.shm.write_text("shared")
        os.chown(self.shm, self.how.uid, self.how.uid)

    def _config(self):
        return {
            "sandbox.mode": self.how.mode,
            "sandbox.network": self.how.network,
            "agents.thinker.kind": "llm",
            "agents.thinker.base_url": "http://127.0.0.1:9/v1",
            "agents.thinker.model": "none",
            "agents.thinker.api_key_env": "ATTACK_TEST_KEY",
            "limits.action_timeout_s": 300,
            **{f"limits.{key}": value for key, value in self.config.items()},
        }

    def _add_agents(self):
        self.clew.agent("waiting", "hello()\nnotice('stop')")
        self.clew.agent("agent", PLAYED.format(role="agent"))
        self.clew.agent("own_tools", PLAYED.format(role="own_tools"), own_tools=True)
        for name, body in self.agents.items():
            self.clew.agent(name, body)
        program = self.base / "codex"
        python, hostile = grants.own_python(), self.workspace("cli") / "hostile"
        program.write_text(CLI.format(python=python, hostile=hostile))
        program.chmod(0o755)
        agent = {"kind": "cli", "cli": "codex", "program": str(program)}
        self.clew.configure({f"agents.cli.{key}": value for key, value in agent.items()})
        for role in (*ROLES, "cli"):
            folder = self.workspace(role)
            (folder / "hostile").mkdir(parents=True)
            for name in PROGRAM:
                shutil.copy(HERE / name, folder / "hostile" / name)
            (folder / "mount-a").mkdir()
            (folder / "link-to-key").symlink_to(self.base / "user" / ".ssh" / "id_ed25519")

    def _give_away(self):
        """Let everything belong to the daemon's user."""
        for path in [self.base, *self.base.rglob("*")]:
            os.chown(path, self.how.uid, self.how.uid, follow_symlinks=False)
        self.base.chmod(0o755)
        for role in (*ROLES, "cli"):
            if os.geteuid() == 0:  # a program of root's that gives its rights to whoever starts it
                program = self.workspace(role) / "setuid-id"
                shutil.copy(shutil.which("id"), program)
                program.chmod(0o4755)

    def _as_user(self):
        if self.how.uid == os.geteuid():
            return ()
        return (sys.executable, str(HERE / "as_user.py"), str(self.how.uid))

    def _start_bystander(self):
        command = [
            *self._as_user(),
            sys.executable,
            "-I",
            str(self._copied("bystander.py")),
            str(self.base),
        ]
        self.bystander = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.found = json.loads(self.bystander.stdout.readline())
        self.traits = self._traits(self.bystander.pid)
        self.clew._before.add(self.bystander.pid)

    def _copied(self, name):
        return shutil.copy(HERE / name, self.base / name)

    def _let_another_goal_work(self):
        self.other = self.clew.submit("---\nagent: waiting\n---\n# Other goal\n", "other.md")
        self.clew.wait("worker.ready", goal=self.other)
        self.clew.workspace(self.other).joinpath("secret").write_text("another goal's secret")
        os.chown(self.clew.workspace(self.other) / "secret", self.how.uid, self.how.uid)

    # -- the attack

    def workspace(self, role):
        return self.base / "work" / role

    def targets(self, role):
        home, ledger = self.clew.home, self.clew.ledger
        return {
            **self.found,
            "control": self.how.mode == "off",
            "isolation": self.how.isolation,
            "where": self.how.where,
            "role": role,
            "workspace": str(self.workspace(role)),
            "daemon": self.clew.daemon.pid,
            "nursery": nursery(self.clew.daemon.pid),
            "ledger": str(ledger),
            "ledger_handle": handle(ledger).hex() if os.geteuid() == 0 else "",
            "config": str(home / "config.toml"),
            "inbox": str(home / "inbox"),
            "outbox": str(home / "outbox"),
            "control_socket": str(home / "run" / "control.sock"),
            "other_goal_file": str(home / "state" / "goals" / self.other / "goal.md"),
            "other_workspace": str(self.clew.workspace(self.other)),
            "other_private": str(home / "state" / "goals" / self.other / "home"),
            "home": str(self.base / "user"),
            "shared_tmp": str(self.base / "tmp"),
            "shm_file": str(self.shm),
            "disk": disk(),
            "key_part": KEY[8:],
            "marker": self.marker,
        }

    def attacked_by(self, role):
        """Let one role attack to its heart's content; what it says became of each attack."""
        folder = self.workspace(role)
        (folder / "hostile" / "targets.json").write_text(json.dumps(self.targets(role)))
        if role == "executor":
            return self.perform(
                "python -I hostile/attack.py executor hostile/targets.json found.json", folder
            )
        name = {"builtin": "runbook"}.get(role, role)
        goal = self.clew.submit(
            f"---\nagent: {name}\nworkspace: {folder}\n---\n# {role} attacks\n", f"{role}.md"
        )
        self.clew.wait("goal.blocked" if role == "builtin" else "goal.completed", goal=goal)
        self.clew.wait("worker.exited", goal=goal)
        return dict(self.clew.said(goal))

    def attacked_by_cli(self):
        """Let a program in the place of a coding agent attack; what became of each attack."""
        folder = self.workspace("cli")
        (folder / "hostile" / "targets.json").write_text(json.dumps(self.targets("cli")))
        goal = self.clew.submit(f"---\nagent: cli\nworkspace: {folder}\n---\n# Attack\n", "cli.md")
        found = self.clew.home / "state" / "goals" / goal / "cli" / "home" / "found.json"
        self.clew.wait("worker.ready", goal=goal)
        self.clew.until(found.exists, "what the attacks found")
        self.clew.wait("goal.blocked", goal=goal)
        self.clew.wait("worker.exited", goal=goal)
        return json.loads(found.read_text())

    def perform(self, command, folder):
        """Have an executor run a command that leaves what it found in found.json; that."""
        command = command.replace("python", shlex.quote(sys.executable), 1)
        goal = self.clew.submit(
            f"---\nworkspace: {folder}\n---\n# executor attacks\n- [ ] attack\n  ```sh\n  {command}\n  ```\n",
            "executor.md",
        )
        self.clew.wait("goal.completed", goal=goal)
        self.clew.wait("worker.exited", goal=goal)
        return json.loads((folder / "found.json").read_text())

    def expected(self, role):
        """The attacks that mean something for this role in these circumstances."""
        targets = {"control": self.how.mode == "off", "where": self.how.where}
        return {name for name, one in attack.ATTACKS.items() if attack.fits(one, role, targets)}

    # -- after

    def damage(self):
        """What is not as it was: each line one thing that an attack has reached."""
        user = self.base / "user"
        told = (self.base / "heard").read_text().split() if (self.base / "heard").exists() else []
        found = [f"the bystander heard of {one}" for one in told]
        found += self._changed_files(user)
        found += [f"{path} was made" for path in self.base.rglob("attacked-*")]
        found += [
            f"{path} was made" for path in (self.base / "tmp").iterdir() if path.suffix != ".sock"
        ]
        if self._traits(self.bystander.pid) != self.traits:
            found.append(
                f"the bystander runs otherwise: {self._traits(self.bystander.pid)} {self.traits}"
            )
        if self._traits(self.clew.daemon.pid) != self.daemon_before:
            found.append("the daemon runs otherwise")
        if "attacked" in (self.clew.home / "config.toml").read_text():
            found.append("the config was written")
        found += [f"left behind: {pid}" for pid in running(self.marker)]
        found += [f"goal {goal}" for goal in self.clew.goals() if "attacked" in goal]
        return found

    def _changed_files(self, user):
        expected = {
            ".ssh/id_ed25519": "the key of the user",
            ".ssh/authorized_keys": "friends",
            ".bashrc": "# as it was",
        }
        found = [
            f"{name} was changed"
            for name, text in expected.items()
            if (user / name).read_text() != text
        ]
        if (user / ".ssh" / "id_ed25519").stat().st_mode & 0o077:
            found.append("the mode of a key was changed")
        if (user / ".bashrc").stat().st_mtime < 100:
            found.append("the times of .bashrc were changed")
        return found + [
            f"{name} is gone" for name in ("movable", "exchangeable") if not (user / name).is_dir()
        ]

    def _traits(self, pid):
        one = psutil.Process(pid)
        return (
            one.nice(),
            one.ionice().value,
            os.sched_getscheduler(pid),
            sorted(os.sched_getaffinity(pid)),
            Path(f"/proc/{pid}/limits").read_text(),
            Path(f"/proc/{pid}/oom_score_adj").read_text(),
            one.status() in ("stopped", "tracing-stop"),
        )


def handle(path):
    """The handle of a file, as open_by_handle_at takes it (root)."""
    libc = ctypes.CDLL(None, use_errno=True)
    raw = ctypes.create_string_buffer((128).to_bytes(4, "little") + bytes(132), 136)
    mount = ctypes.c_int()
    done = libc.name_to_handle_at(-100, str(path).encode(), raw, ctypes.byref(mount), 0)
    assert done == 0, os.strerror(ctypes.get_errno())
    opened = libc.open_by_handle_at(os.open(path.parent, os.O_RDONLY), raw, os.O_RDONLY)
    assert opened >= 0, "the handle opens nothing even for root"
    os.close(opened)
    return raw.raw


def disk():
    """The device of the root file system, or something like it."""
    names = [one.device for one in psutil.disk_partitions() if one.device.startswith("/dev/")]
    return names[0] if names else "/dev/vda"


attack.load()
