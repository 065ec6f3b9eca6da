"""Checks of the agents: endpoints answer, keys are present, commands start in the sandbox, coding agents work there."""

from __future__ import annotations

import json
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from clew_daemon.cli.commands.doctor.findings import OF_AGENT, Finding, Level, in_one_line
from clew_daemon.cli.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clew_daemon.cli.commands.doctor.trial import SandboxTrial
    from clew_daemon.cli.instance import Instance
    from clew_shared.config.settings import (
        CliAgentSettings,
        CommandAgentSettings,
        LlmAgentSettings,
        Settings,
    )

LLM_S = 3.0


def agents(instance: Instance) -> Iterator[Finding]:
    """Check each agent of the config; what only goals that name an agent need is a warning, and no failure."""
    settings = _settings(instance)
    if settings is None:
        return
    ladders = [
        settings.attempts.ladder,
        *(m.ladder or () for m in settings.context.models.values()),
    ]
    used = {settings.agents.default_name, *(rung.agent for ladder in ladders for rung in ladder)}
    for found in _each(instance, settings):
        name = found.name.removeprefix(OF_AGENT).partition(":")[0]
        is_spared = found.level == "fail" and name not in used
        yield replace(found, level="warn") if is_spared else found


def _each(instance: Instance, settings: Settings) -> Iterator[Finding]:
    """Check the endpoint and key of each agent, its command, or its program."""
    from clew_daemon.cli.commands.doctor.clis import coding_agents
    from clew_shared.config.settings import (
        CliAgentSettings,
        CommandAgentSettings,
        LlmAgentSettings,
    )

    coders: dict[str, CliAgentSettings] = {}
    commands: dict[str, CommandAgentSettings] = {}
    for name, agent in sorted(settings.agents.named.items()):
        if isinstance(agent, LlmAgentSettings):
            yield _endpoint(f"agent {name}", agent, instance)
        elif isinstance(agent, CommandAgentSettings):
            commands[name] = agent
        elif isinstance(agent, CliAgentSettings):
            coders[name] = agent
    if commands:
        yield from _commands(instance, settings, commands)
    yield from coding_agents(instance, settings, coders)


def _settings(instance: Instance) -> Settings | None:
    """Return the settings of the file; of a broken file, those of the running daemon."""
    from clew_shared.config.settings import SettingsError

    try:
        return instance.loaded.settings
    except (CliError, SettingsError):
        try:
            return instance.settings_in_force
        except CliError:
            return None


def _commands(
    instance: Instance, settings: Settings, commands: Mapping[str, CommandAgentSettings]
) -> Iterator[Finding]:
    """Check each command; those that could start are started in the sandbox, in an empty workspace."""
    import asyncio
    import tempfile

    from clew_daemon.cli.surroundings import executor_env

    env = executor_env(instance)
    ready: dict[str, CommandAgentSettings] = {}
    for name, agent in commands.items():
        if finding := _program(
            f"agent {name}", agent, env | {"HOME": instance.env.get("HOME", "/")}
        ):
            yield finding
        else:
            ready[name] = agent
    if ready:
        with tempfile.TemporaryDirectory(prefix="clew-doctor-") as workspace:
            yield from asyncio.run(_started(instance, settings, ready, env, workspace))


def _program(name: str, agent: CommandAgentSettings, env: Mapping[str, str]) -> Finding | None:
    """Return why a command cannot be started at all, None if it might be."""
    from clew_daemon.processes.cells import resolved
    from clew_daemon.processes.cli_programs import unusable

    program = resolved(agent.command, env)[0]
    setting = f"[{name.replace(' ', 's.', 1)}] command"
    if "/" not in program:
        fix = f"install it, or give its absolute path in {setting}"
        return Finding(name, "fail", f"{program}: not found on the PATH of the daemon", fix)
    if not program.startswith("/"):
        fix = f"give its absolute path in {setting}: a relative one starts at the workspace"
        return Finding(name, "warn", f"{program} is a relative path", fix)
    if wrong := unusable(Path(program)):
        fix = f"chmod +x {program}" if wrong.endswith("executable") else f"correct {setting}"
        return Finding(name, "fail", f"{program} {wrong}", fix)
    return None


async def _started(
    instance: Instance,
    settings: Settings,
    ready: Mapping[str, CommandAgentSettings],
    env: Mapping[str, str],
    workspace: str,
) -> list[Finding]:
    """Start each command as a goal would, until it calls `hello`."""
    from clew_daemon.cli.commands.doctor.trial import SandboxTrial, TrialError
    from clew_daemon.host.keys import Keys

    keys = Keys(instance.env, instance.config.parent)
    trial = SandboxTrial(instance.places, settings, keys, env, workspace)
    try:
        async with trial:
            home = instance.env.get("HOME", "/")
            return [
                await _greeting(trial, name, agent, settings, home) for name, agent in ready.items()
            ]
    except TrialError as error:
        return [Finding(f"agent {name}", "warn", f"not tried: {error}") for name in ready]


async def _greeting(
    trial: SandboxTrial, name: str, agent: CommandAgentSettings, settings: Settings, home: str
) -> Finding:
    """Check whether an agent calls `hello`; if not, search for a `read` line that helps."""
    from clew_daemon.cli.commands.doctor import allowing
    from clew_daemon.cli.commands.doctor.trial import SandboxVariant

    title = f"agent {name}"
    done = await trial.hello(agent)
    if done.ok:
        return Finding(title, "ok", f"{agent.command[0]} starts in the sandbox and says hello")
    why = in_one_line(done.output, last=True)
    paths = [*agent.command, *allowing.mentioned(done.output), *_site_packages(home)]
    folders = allowing.roots([path for path in paths if path.startswith("/")], home)
    for some in dict.fromkeys([*((one,) for one in folders), tuple(folders)]):
        if some and (await trial.hello(agent, SandboxVariant(read=some))).ok:
            line = allowing.line(settings.sandbox.read, some, home)
            fix = f"[sandbox] {line}\n(tried: it starts with that; restart clew after the change)"
            return Finding(title, "fail", f"it does not start in the sandbox: {why}", fix)
    fix = "docs/protocol.md: an agent connects to CLEW_FD and calls hello first"
    return Finding(title, "fail", f"it does not say hello: {why}", fix)


def _site_packages(home: str) -> list[str]:
    """Return the folders of `pip install --user`, which a sandbox hides."""
    return [str(path) for path in Path(home, ".local", "lib").glob("python3*/site-packages")]


def _endpoint(name: str, agent: LlmAgentSettings, instance: Instance) -> Finding:
    """Ask the endpoint for its models; any HTTP answer proves that a server is there."""
    from clew_daemon.host.keys import CREDENTIALS, Keys
    from clew_shared.text.redact import redact

    keys = Keys(instance.env, instance.config.parent)
    if fault := keys.fault(agent):
        of_the_unit = CREDENTIALS in (agent.api_key_file or "") and CREDENTIALS not in instance.env
        level: Level = "warn" if of_the_unit else "fail"
        fix = "`clew status` shows whether the service has it" if of_the_unit else "set it"
        return Finding(name, level, f"no key: {fault}", fix)
    url = f"{agent.base_url}/models"
    key = keys.of(agent)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with _opener().open(Request(url, headers=headers), timeout=LLM_S) as answer:  # noqa: S310 - http(s) by the settings
            models = _models(answer.read(1 << 20))
    except HTTPError as error:
        error.close()
        fix = "check the key" if error.code in (401, 403) else "check base_url"
        return Finding(name, "fail", redact(f"{url} answers with status {error.code}"), fix)
    except (URLError, OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        fix = f"start the server at {_place(agent.base_url)}, or set base_url"
        return Finding(name, "fail", redact(f"{url}: {reason}"), fix)
    if models and agent.model and agent.model not in models:
        found = redact(f"{url} has no model {agent.model!r}")
        return Finding(name, "warn", found, f"available: {redact(', '.join(models[:8]))}")
    return Finding(name, "ok", redact(f"{agent.model or 'no model set'} at {agent.base_url}"))


def _place(url: str) -> str:
    """Return the host and port of an address, without user name and password."""
    return urlsplit(url).netloc.rpartition("@")[2]


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect: urllib would send the key to the new address."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        return None


def _opener() -> OpenerDirector:
    """Return an opener that connects as the agents do: without a proxy, without redirects."""
    return build_opener(_NoRedirect, ProxyHandler({}))


def _models(raw: bytes) -> list[str]:
    try:
        return [str(model["id"]) for model in json.loads(raw)["data"]]
    except (ValueError, KeyError, TypeError):
        return []
