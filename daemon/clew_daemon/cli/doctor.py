"""`clew doctor`: tries what clew needs, and says of what fails how to mend it.

Each examination is a function that gives findings and raises nothing; nothing is changed.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import asdict, dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from clew_daemon.cli.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clew_daemon.cli.where import Where
    from clew_shared.settings import LlmAgent

LLM_S = 3.0
PROGRAM_S = 10.0
SANDBOX_S = 30.0
FREE_MB_MIN = 200
PYTHON_MIN = (3, 11)
NOTIFY_RELOAD_SINCE = 253
QUEUES_MIN = 128
WATCHES_MIN = 16_384
_PROBE = "from clew_worker.sandbox import probe; print(probe().model_dump_json())"
CGROUP_MEND = (
    "workers are ended one process at a time, and their memory is watched, not held: run clew as a "
    "service (clew service install), or systemd-run --user --scope -p Delegate=yes clew run"
)
Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """What was found out about one thing; `mend` says what to do, "" where there is nothing to."""

    name: str
    level: Level
    found: str
    mend: str = ""

    def as_dict(self) -> dict[str, str]:
        """Give it as JSON has it."""
        return asdict(self)


def examine(where: Where) -> list[Finding]:
    """Look at everything, in the order in which faults follow from one another."""
    examinations: tuple[Callable[[Where], Iterator[Finding]], ...] = (
        _python,
        _config,
        _folders,
        _ledger,
        _daemon,
        _sandbox,
        _cgroup,
        _inotify,
        _systemd,
        _endpoints,
    )
    findings: list[Finding] = []
    for examination in examinations:
        try:
            findings += examination(where)
        except CliError as error:
            findings.append(Finding(examination.__name__.strip("_"), "fail", error.message))
    return findings


def _python(_: Where) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < PYTHON_MIN:
        yield Finding("python", "fail", version, "install Python 3.11 or newer")
    else:
        yield Finding("python", "ok", f"{version} ({sys.executable})")
    yield _packages()


def _packages() -> Finding:
    """Compare what is installed with what clew's own metadata asks for."""
    from importlib.metadata import PackageNotFoundError, requires, version

    missing = []
    try:
        wanted = requires("clew") or []
    except PackageNotFoundError:
        return Finding("packages", "warn", "clew is not installed as a package", "pip install clew")
    for requirement in wanted:
        name = requirement.split(";", 1)[0].split(">", 1)[0].split("=", 1)[0].strip()
        try:
            version(name)
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        told = ", ".join(missing)
        return Finding("packages", "fail", f"missing: {told}", f"pip install {' '.join(missing)}")
    return Finding("packages", "ok", f"all {len(wanted)} are installed")


def _config(where: Where) -> Iterator[Finding]:
    from clew_shared.settings import SettingsError

    try:
        loaded = where.loaded
    except SettingsError as error:
        faults = "\n".join(map(str, error.faults))
        yield Finding("config", "fail", f"{len(error.faults)} faults in {where.config}", faults)
        return
    there = str(where.config) if where.config_text is not None else "none; all defaults"
    yield Finding("config", "ok", there)
    if fault := loaded.settings.agents.fault():
        yield Finding("default agent", "warn", fault, "goals with a runbook need none")


def _folders(where: Where) -> Iterator[Finding]:
    places = where.places
    for name in ("inbox", "outbox", "workspaces", "state", "run"):
        yield _folder(name, getattr(places, name), private=name in ("state", "run"))
    free_mb = shutil.disk_usage(_existing(places.state)).free >> 20
    if free_mb < FREE_MB_MIN:
        mend = f"make room: clew stops accepting and judging on a full disk ({places.state})"
        yield Finding(
            "free space", "fail" if free_mb < FREE_MB_MIN // 10 else "warn", f"{free_mb} MB", mend
        )
    else:
        yield Finding("free space", "ok", f"{free_mb} MB")


def _folder(name: str, path: Path, *, private: bool) -> Finding:
    if not path.exists():
        above = _existing(path)
        if os.access(above, os.W_OK | os.X_OK):
            return Finding(name, "ok", f"{path} (made at the first start)")
        return Finding(name, "fail", f"{path} cannot be made", f"let {above} be writable for you")
    if not path.is_dir():
        return Finding(name, "fail", f"{path} is no folder", "move it away")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return Finding(name, "fail", f"{path} is not writable", f"chmod u+rwx {path}")
    mode = stat.S_IMODE(path.stat().st_mode)
    if private and mode & 0o077:
        return Finding(name, "warn", f"{path} is open to others ({mode:o})", f"chmod 700 {path}")
    return Finding(name, "ok", str(path))


def _existing(path: Path) -> Path:
    """Return the path, or the first folder above it that is there."""
    return next((place for place in (path, *path.parents) if place.exists()), Path("/"))


def _ledger(where: Where) -> Iterator[Finding]:
    from clew_daemon.cli.record import goal_ids, refuse_lost
    from clew_daemon.lost_record import lacking
    from clew_shared.ledger import LedgerError

    refuse_lost(where)
    if not where.ledger.exists():
        yield Finding("ledger", "ok", f"{where.ledger} (made at the first start)")
        return
    try:
        goals = goal_ids(where)
        missing = lacking(where.ledger, where.places.state)
    except (CliError, LedgerError, OSError) as error:
        yield Finding("ledger", "fail", str(error))
        return
    if missing and not missing.is_copied:
        behind = missing.error(where.ledger)
        yield Finding("ledger", "fail", f"{behind.path} {behind.what}", behind.hint)
        return
    yield Finding("ledger", "ok", f"{where.ledger}, {len(goals)} goals; `clew verify` checks it")


def _daemon(where: Where) -> Iterator[Finding]:
    from clew_daemon.cli.client import NoDaemon, call

    address = where.socket
    try:
        answer = call(address, "ping")
    except NoDaemon as error:
        if address.holder:
            yield Finding("daemon", "fail", error.message)
        else:
            run = "clew run, or systemctl --user start clew"
            yield Finding("daemon", "warn", "none is running", run)
    except CliError as error:
        yield Finding("daemon", "fail", error.message, "clew logs; then end it and start it again")
    else:
        yield Finding("daemon", "ok", f"pid {answer['pid']}, version {answer['version']}")


def _sandbox(where: Where) -> Iterator[Finding]:
    report = _probed()
    if isinstance(report, str):
        yield Finding("sandbox", "fail", report)
        return
    abi = report["landlock_abi"]
    mode = _sandbox_mode(where)
    found = f"Landlock ABI {abi}, {report['isolation']}, mode {mode}"
    messages = "\n".join(report["messages"])
    if abi == 0 and mode == "enforce":
        yield Finding("sandbox", "fail", f"{found}: no worker will start", messages)
    else:
        yield Finding("sandbox", "warn" if messages or mode != "enforce" else "ok", found, messages)


def _sandbox_mode(where: Where) -> str:
    from clew_shared.settings import SettingsError

    try:
        return where.loaded.settings.sandbox.mode
    except SettingsError:
        return "enforce"


def _probed() -> dict[str, Any] | str:
    """Let a process of the worker's side try the sandbox; its report, or why there is none."""
    done = _ran([sys.executable, "-P", "-c", _PROBE], SANDBOX_S)  # -P: not from the current folder
    if isinstance(done, str):
        return done
    if done.returncode:
        return f"the probe failed: {(done.stderr.strip().splitlines() or ['no word'])[-1]}"
    return dict(json.loads(done.stdout))


def _cgroup(where: Where) -> Iterator[Finding]:
    """Ask the daemon what it has; without one, see what one started from here would have."""
    from clew_daemon import cgroup_tree, units
    from clew_daemon.cgroups import CONTROLLERS
    from clew_daemon.cli.client import NoDaemon, call

    try:
        said = call(where.socket, "ping").get("cgroup", {})
    except NoDaemon:
        own, why_not = cgroup_tree.own_group()
        if own:
            why_not = cgroup_tree.why_not_delegated(own, units.is_delegated)
        said = {"path": None if why_not else str(own), "why_not": why_not}
    if not said.get("path"):
        found = f"none for each worker: {said.get('why_not') or 'the daemon does not say'}"
        yield Finding("control groups", "warn", found, CGROUP_MEND)
        return
    missing = [name for name in CONTROLLERS if name not in said.get("controllers", CONTROLLERS)]
    found = f"one for each worker in {said['path']}" + (
        f"; without {', '.join(missing)}" if missing else ""
    )
    yield Finding("control groups", "ok", found)


def _inotify(_: Where) -> Iterator[Finding]:
    """See how many large workspaces the kernel can tell of; without, they are looked at whole."""
    try:
        queues, watches = (
            int(Path(f"/proc/sys/fs/inotify/max_user_{name}").read_text())
            for name in ("instances", "watches")
        )
    except (OSError, ValueError):
        mend = "actions in large workspaces take longer"
        yield Finding("inotify", "warn", "this kernel has none", mend)
        return
    found = f"{queues} queues and {watches} watches for all programs of this user"
    if queues < QUEUES_MIN or watches < WATCHES_MIN:
        mend = (
            "sysctl fs.inotify: raise max_user_instances and max_user_watches (docs/operations.md)"
        )
        yield Finding("inotify", "warn", f"{found}: few for large workspaces", mend)
    else:
        yield Finding("inotify", "ok", found)


def _systemd(where: Where) -> Iterator[Finding]:
    from clew_daemon.units import unit_path

    done = _ran(["systemctl", "--version"], PROGRAM_S)
    if isinstance(done, str):
        yield Finding(
            "systemd", "warn", "not here", "clew run works without; let something restart it"
        )
        return
    words = done.stdout.split()
    version = words[1] if len(words) > 1 else "?"
    old = version.isdigit() and int(version) < NOTIFY_RELOAD_SINCE
    yield Finding(
        "systemd", "ok", f"version {version}" + (", reload by SIGHUP only" if old else "")
    )
    yield _user_manager()
    unit = unit_path(where.env)
    if unit.exists():
        yield Finding("unit", "ok", str(unit))
    else:
        yield Finding("unit", "warn", "not installed", "clew service install")
    yield _linger()


def _user_manager() -> Finding:
    done = _ran(["systemctl", "--user", "is-system-running"], PROGRAM_S)
    said = done if isinstance(done, str) else done.stdout.strip() or done.stderr.strip()
    if said in ("running", "degraded", "starting"):
        return Finding("user manager", "ok", said)
    first = (said or "no answer").splitlines()[0]
    return Finding("user manager", "warn", first, "log in with a session of systemd (not by su)")


def _linger() -> Finding:
    user = os.environ.get("USER") or str(os.getuid())
    done = _ran(["loginctl", "show-user", user, "--property=Linger"], PROGRAM_S)
    if not isinstance(done, str) and done.stdout.strip() == "Linger=yes":
        return Finding("linger", "ok", "services go on after logout")
    return Finding("linger", "warn", "the service ends at logout", "loginctl enable-linger")


def _ran(command: list[str], within_s: float) -> subprocess.CompletedProcess[str] | str:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"


def _endpoints(where: Where) -> Iterator[Finding]:
    from clew_shared.settings import LlmAgent, SettingsError

    try:
        agents = where.loaded.settings.agents
    except SettingsError:
        return
    for name in sorted(agents.named):
        agent = agents.named[name]
        if isinstance(agent, LlmAgent):
            yield _endpoint(f"agent {name}", agent, where)


def _endpoint(name: str, agent: LlmAgent, where: Where) -> Finding:
    """Ask the endpoint for its models; any answer in HTTP proves that something is there."""
    from clew_daemon.keys import CREDENTIALS, Keys
    from clew_shared.redact import redact

    keys = Keys(where.env, where.config.parent)
    if fault := keys.fault(agent):
        of_the_unit = CREDENTIALS in (agent.api_key_file or "") and CREDENTIALS not in where.env
        level: Level = "warn" if of_the_unit else "fail"
        mend = "`clew status` tells whether the service has it" if of_the_unit else "set it"
        return Finding(name, level, f"no key: {fault}", mend)
    url = f"{agent.base_url}/models"
    key = keys.of(agent)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with _opener().open(Request(url, headers=headers), timeout=LLM_S) as answer:  # noqa: S310 - http(s) by the settings
            models = _models(answer.read(1 << 20))
    except HTTPError as error:
        error.close()
        mend = "check the key" if error.code in (401, 403) else "check base_url"
        return Finding(name, "fail", redact(f"{url} answers {error.code}"), mend)
    except (URLError, OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        mend = f"start the server at {_place(agent.base_url)}, or set base_url"
        return Finding(name, "fail", redact(f"{url}: {reason}"), mend)
    if models and agent.model and agent.model not in models:
        there = redact(", ".join(models[:8]))
        return Finding(
            name, "warn", redact(f"{url} has no model {agent.model!r}"), f"it has: {there}"
        )
    return Finding(name, "ok", redact(f"{agent.model or 'no model set'} at {agent.base_url}"))


def _place(url: str) -> str:
    """Give the host and port of an address, without the name and password that may stand there."""
    return urlsplit(url).netloc.rpartition("@")[2]


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect: urllib would send the key along, to whoever is named."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        return None


def _opener() -> OpenerDirector:
    """Ask as the agents do: no proxy of the environment, no redirect."""
    return build_opener(_NoRedirect, ProxyHandler({}))


def _models(raw: bytes) -> list[str]:
    try:
        return [str(model["id"]) for model in json.loads(raw)["data"]]
    except (ValueError, KeyError, TypeError):
        return []
