"""Checks of the agents: endpoints answer, keys are there, commands can be started, coding agents work through clew."""

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
from clew_daemon.reading.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clew_daemon.reading.instance import Instance
    from clew_shared.config.agent_tables import (
        CliAgentSettings,
        CommandAgentSettings,
        LlmAgentSettings,
    )
    from clew_shared.config.tables import Settings

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
    from clew_daemon.cli.surroundings import executor_env
    from clew_shared.config.agent_tables import (
        CliAgentSettings,
        CommandAgentSettings,
        LlmAgentSettings,
    )

    coders: dict[str, CliAgentSettings] = {}
    env = executor_env(instance) | {"HOME": instance.env.get("HOME", "/")}
    for name, agent in sorted(settings.agents.named.items()):
        if isinstance(agent, LlmAgentSettings):
            yield _endpoint(f"agent {name}", agent, instance)
        elif isinstance(agent, CommandAgentSettings):
            yield checked_command(f"agent {name}", agent, env)
        elif isinstance(agent, CliAgentSettings):
            coders[name] = agent
    yield from coding_agents(instance, settings, coders)


def _settings(instance: Instance) -> Settings | None:
    """Return the settings of the file; of a broken file, those of the running daemon."""
    from clew_shared.config.faults import SettingsError

    try:
        return instance.loaded.settings
    except (CliError, SettingsError):
        try:
            return instance.settings_in_force
        except CliError:
            return None


def checked_command(name: str, agent: CommandAgentSettings, env: Mapping[str, str]) -> Finding:
    """Check whether the program of a command can be started; whether it speaks the protocol its first goal says."""
    return _program(name, agent, env) or Finding(name, "ok", in_one_line(" ".join(agent.command)))


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
