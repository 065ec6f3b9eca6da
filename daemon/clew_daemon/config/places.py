"""Where clew's folders are: XDG, `--home`, and `[paths]` over both (docs/configuration.md). Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_shared.config.tables import Settings


FOLDERS = ("inbox", "outbox", "workspaces", "state", "run")


@dataclass(frozen=True)
class Places:
    """The folders of one clew; `home` is set where all lie under one, `config` is the file."""

    home: Path | None
    config: Path
    inbox: Path
    outbox: Path
    workspaces: Path
    state: Path
    run: Path

    @property
    def folders(self) -> dict[str, Path]:
        """The folders by their names in `[paths]`."""
        return {name: getattr(self, name) for name in FOLDERS}

    @property
    def socket(self) -> Path:
        return self.run / "control.sock"

    @property
    def log_file(self) -> Path:
        """The log's file, where `[log] file` names no other."""
        return self.state / "clew.log"

    @property
    def snapshots(self) -> Path:
        """Where the goals' stores of snapshots are, one folder for each."""
        return self.state / "snapshots"


class PlacesError(ValueError):
    """A path cannot be resolved from the environment."""


def places(env: Mapping[str, str], home: Path | None, settings: Settings | None) -> Places:
    """Resolve every folder; `home` (--home) goes before CLEW_HOME, `[paths]` over both. PlacesError without HOME."""
    home = home or (Path(env["CLEW_HOME"]) if env.get("CLEW_HOME") else None)
    if home is None:
        found = _under_xdg(env)
    else:
        home = expanded(str(home), env)
        found = Places(home, home / "config.toml", **{name: home / name for name in FOLDERS})
    given = {
        name: found.config.parent / expanded(path, env)
        for name in FOLDERS
        if settings and (path := getattr(settings.paths, name)) is not None
    }
    if found.run == found.state and "state" in given:
        given.setdefault("run", given["state"])
    return replace(found, **given)


def default_places(env: Mapping[str, str]) -> Places | None:
    """Return the folders of the home that is used without `--home` and CLEW_HOME; None where HOME is not set."""
    try:
        return _under_xdg(env)
    except PlacesError:
        return None


def expanded(path: str, env: Mapping[str, str]) -> Path:
    """Return the path with a leading `~` replaced by HOME; PlacesError for another user's home."""
    if path == "~" or path.startswith("~/"):
        return _user_home(env) / path[2:]
    if path.startswith("~"):
        raise PlacesError(f"{path}: name the home of another user by its absolute path")
    return Path(path)


def _under_xdg(env: Mapping[str, str]) -> Places:
    def below(name: str, usual: str) -> Path:  # relative values are ignored, as XDG says
        value = env.get(name, "")
        return (Path(value) if value.startswith("/") else _user_home(env) / usual) / "clew"

    data, state = below("XDG_DATA_HOME", ".local/share"), below("XDG_STATE_HOME", ".local/state")
    config = below("XDG_CONFIG_HOME", ".config") / "config.toml"
    has_run = env.get("XDG_RUNTIME_DIR", "").startswith("/")
    run = below("XDG_RUNTIME_DIR", "") if has_run else state
    own = {name: data / name for name in ("inbox", "outbox", "workspaces")}
    return Places(None, config, **own, state=state, run=run)


def _user_home(env: Mapping[str, str]) -> Path:
    home = env.get("HOME", "")
    if not home.startswith("/"):
        raise PlacesError("HOME is not set to an absolute path: set it, or give --home DIR")
    return Path(home)
