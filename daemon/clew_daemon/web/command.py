"""`clew web`: the pages in the browser. Its packages are imported here alone, and only when it is called."""

import sys

import click
from pydantic import ValidationError

from clew_daemon.cli.parameters import command, flag, option
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.sanitize import clean
from clew_shared.config.tables import WebSettings


@command(
    option("--listen", "HOST:PORT", "Instead of `[web] listen`; or unix:PATH."),
    flag("--read-only", "Only show goals, and change nothing."),
    flag("--link", "Print another link to the `clew web` that runs."),
)
def web(instance: Instance, listen: str | None, read_only: bool, link: bool) -> None:
    """Show goals in the browser, live, and act on them there; the printed link opens a session once."""
    if link:
        if listen or read_only:
            raise click.UsageError("--link asks the server that runs: it takes no other options")
        from clew_daemon.web.server import asked_link

        click.echo(clean(asked_link(instance)))
        return
    from clew_daemon.web.server import serve

    settings = instance.settings.web
    given = {"read_only": settings.read_only or read_only, "listen": listen or settings.listen}
    try:
        settings = WebSettings.model_validate({**settings.model_dump(), **given})
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise click.UsageError(f"--listen {why}") from None
    # what a service prints ends in the journal; a desktop's terminals inherit INVOCATION_ID, too
    started = instance.env.get("NOTIFY_SOCKET") or instance.env.get("INVOCATION_ID")
    is_service = bool(started) and not sys.stdout.isatty()
    sys.exit(serve(instance, settings, None if is_service else _announce))


def _announce(link: str) -> None:
    click.echo(f"open {link}")
    click.echo("(the link works once; for another one: clew web --link)", err=True)
