"""The start of the daemon: limits, keys, folders, locks, log, control group, and the zygote's process.

That process starts before the rest of the daemon is imported, so that both warm up side by side. This file
therefore imports little and knows none of the daemon's parts.
"""

import contextlib
import errno
import os
import resource
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from setproctitle import setproctitle

from clew_daemon.config.places import Places
from clew_daemon.host import folders, git
from clew_daemon.host.keys import Keys, scrubbed, take_environment
from clew_daemon.host.own_process import without_notify
from clew_daemon.inbox.files import REJECTED
from clew_daemon.ledger.lock import DAEMON, Lock, LockError, LockHeldError, acquire, beside
from clew_daemon.logs import setup as logging
from clew_daemon.processes.cgroups import Cgroups
from clew_daemon.processes.children import become_subreaper
from clew_daemon.processes.nursery import Zygote
from clew_shared.config.agent_tables import CliAgentSettings, LlmAgentSettings
from clew_shared.config.settings import Loaded
from clew_shared.config.tables import Settings
from clew_shared.exit_codes import ExitCode
from clew_shared.text.plain import plain

# Errors that may be gone at the next start: the service manager tries again.
TRANSIENT_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
DESCRIPTORS = 65_536
SWITCH_S = 0.0001  # how long a thread that packs or publishes runs while the event loop waits
NO_PROC = (
    "/proc is not mounted, and clew needs it to supervise its workers: mount it (mount -t proc proc /proc), "
    "or give the container its own"
)
LLM_MODULES = ("clew_worker.agent.llm",)
BRIDGE_MODULES = ("clew_worker.bridge.life", "clew_worker.bridge.starter")
NURSERY_ENV = ("PATH", "LANG", "PYTHONPATH", "LD_LIBRARY_PATH", "COVERAGE_PROCESS_CONFIG")


class BootstrapError(Exception):
    """The daemon cannot run here; `code` is the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """What the start hands to the daemon; `zygote` already warms up, None where it could not be started."""

    places: Places
    settings: Settings
    keys: Keys
    cgroups: Cgroups
    nursery_env: dict[str, str]
    preload: tuple[str, ...]
    zygote: Zygote | None
    ledger_lock: Lock
    git_identity: dict[str, str]


def ledger_file(places: Places, settings: Settings) -> Path:
    file = settings.ledger.url.removeprefix("sqlite:///")
    return Path(file.replace("<state>", str(places.state)))


@contextmanager
def bootstrap(places: Places, loaded: Loaded) -> Iterator[Bootstrap]:
    """Start, and hold the locks and the log as long as the daemon runs; raises BootstrapError."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the loop listens
    _limit()
    if not Path("/proc/self/stat").exists():
        raise BootstrapError(NO_PROC, ExitCode.CONFIGURATION)
    keys = take_environment(os.environ, loaded.settings, places.config.parent)
    setproctitle("clew: daemon")
    with _locked_and_logging(places, loaded.settings, keys) as lock:
        sys.setswitchinterval(SWITCH_S)
        warn_of(loaded.outdated)
        try:
            become_subreaper()
            cgroups = Cgroups.claim(places.state)
        except OSError as error:
            what = f"clew cannot supervise processes: {plain(error)}"
            raise BootstrapError(what, ExitCode.FAILED) from None
        own = without_notify(scrubbed(keys.env, loaded.settings))
        env = {name: own[name] for name in NURSERY_ENV if name in own}
        modules = preload(loaded.settings)
        launched = None
        with contextlib.suppress(OSError):  # the next attempt reports the error
            launched = Zygote(env, modules)
        identity = git.read_identity(keys.env)  # while the zygote warms up
        try:
            made = (places, loaded.settings, keys, cgroups, env, modules, launched, lock, identity)
            yield Bootstrap(*made)
        finally:
            if launched:
                launched.give_up()


@contextmanager
def _locked_and_logging(places: Places, settings: Settings, keys: Keys) -> Iterator[Lock]:
    """Make the folders, become the only daemon of the ledger and of the run folder, and start the log."""
    paths = beside(ledger_file(places, settings)), places.run / "clew.lock"
    with ExitStack() as held:
        try:
            folders.make(places)
            lock = partial(acquire, role=DAEMON, socket=places.socket)
            ledger, _ = [held.enter_context(lock(path)) for path in paths]
            folders.remove_drafts(places.outbox, places.inbox / REJECTED)
            configure_log(places, settings, keys)
            record_places(places, settings, keys)
        except LockHeldError as error:
            raise BootstrapError(str(error), ExitCode.FAILED) from None
        except (folders.FolderError, LockError) as error:
            raise BootstrapError(str(error), ExitCode.CONFIGURATION) from None
        except OSError as error:
            code = ExitCode.FAILED if error.errno in TRANSIENT_ERRNOS else ExitCode.CONFIGURATION
            raise BootstrapError(f"clew cannot use its folders: {plain(error)}", code) from None
        held.callback(logging.close)
        yield ledger


def record_places(places: Places, settings: Settings, keys: Keys) -> None:
    """Let clients find this daemon even if its config is broken later; a failure here is ignored."""
    log_file = Path(settings.log.file or places.log_file).expanduser().absolute()
    with contextlib.suppress(OSError, RuntimeError):
        folders.record(places, ledger_file(places, settings), log_file, keys.env)


def configure_log(places: Places, settings: Settings, keys: Keys) -> None:
    """Log as configured; where the config names no file, to one in the state folder, for `clew logs`."""
    table = settings.log
    if table.file is None:
        table = table.model_copy(update={"file": str(places.log_file)})
    keys.hide(settings)
    logging.configure(table)


def warn_of(outdated: Iterable[str]) -> None:
    for sentence in outdated:
        structlog.get_logger().warning("config.outdated", message=sentence)


def failed(message: str, code: int) -> int:
    """Print why the daemon ends to stderr; return the exit code."""
    print(f"clew: {message}", file=sys.stderr)  # noqa: T201 - there may be no log yet
    return code


def _limit() -> None:
    """Refuse core dumps, which would hold keys, and allow more descriptors than a worker may have."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def preload(settings: Settings) -> tuple[str, ...]:
    """Return the modules that the nursery imports for these agents."""
    agents = settings.agents.named.values()
    llm = any(isinstance(a, LlmAgentSettings) and a.model for a in agents)
    cli = any(isinstance(a, CliAgentSettings) for a in agents)
    return (LLM_MODULES if llm else ()) + (BRIDGE_MODULES if cli else ())
