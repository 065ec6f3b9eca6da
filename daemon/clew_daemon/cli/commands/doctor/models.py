"""Whether the settings fit the models: what the calls of recent goals say about that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_daemon.cli.commands.doctor.findings import Finding
from clew_daemon.cli.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_daemon.cli.instance import Instance
    from clew_shared.config.suggestion import Suggestion


def models(instance: Instance) -> Iterator[Finding]:
    """Suggest a profile for each model that often goes in circles, or makes calls that cannot be read."""
    from clew_daemon.cli.queries import model_conducts
    from clew_daemon.learning.advice import suggestions
    from clew_shared.config.suggestion import suggested_lines

    try:
        known = model_conducts(instance)
    except CliError:  # the check of the ledger has reported it
        return
    by_model: dict[str, list[Suggestion]] = {}
    for one in suggestions(known, instance.settings_for_display):
        by_model.setdefault(one.model, []).append(one)
    for model, some in by_model.items():
        fix = "\n".join(
            ["other settings may fit it better, in the config:", *suggested_lines(some)]
        )
        yield Finding(f"model {model}", "warn", "; ".join(one.reason for one in some), fix)
