"""Checks of `clew herald`: what it could not deliver, as it says in a file of the state folder (docs/herald.md)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from clew_daemon.cli.commands.doctor.findings import Finding
from clew_shared.record.moment import local

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_daemon.reading.instance import Instance

HEALTH, LOCK = "herald.json", "herald.lock"
FIX = "check the address in [notify] urls_file, or OTEL_EXPORTER_OTLP_ENDPOINT, and that its server runs"


def herald(instance: Instance) -> Iterator[Finding]:
    """Report each channel that fails; nothing if no herald was ever started here."""
    from clew_shared.ledger.lock import holder

    state = instance.places.state
    try:
        found = json.loads((state / HEALTH).read_text())
        running = holder(state / LOCK)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        yield Finding("herald", "warn", f"{state / HEALTH} cannot be read: {error}")
        return
    failing = [one for one in found.get("channels", {}).values() if one["failing_since"]]
    for channel in failing:
        yield _failing(channel)
    if running is None:
        fix = "clew herald, or systemctl --user start clew-herald; nothing is sent until then"
        yield Finding("herald", "warn", "not running", fix)
    elif not failing:
        yield Finding("herald", "ok", f"pid {running.pid}")


def _failing(channel: dict[str, Any]) -> Finding:
    since = local(channel["failing_since"])
    text = f"{channel['label']}: cannot be reached since {since}: {channel['error']}"
    return Finding("herald", "warn", text, FIX)
