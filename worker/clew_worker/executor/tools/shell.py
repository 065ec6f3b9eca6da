"""Commands and waiting."""

from typing import Any

from clew_worker.executor.commands import CommandError
from clew_worker.executor.tools.outcome import Context, Outcome

CANCELLED = "cancelled"


def run_cmd(args: dict[str, Any], context: Context) -> Outcome:
    """Run a command; it is over when the command itself is, whatever it left behind."""
    timeout_s = min(float(args.get("timeout_s", context.timeout_s)), context.timeout_s)
    try:
        ended = context.commands.run(
            args["cmd"], context.request_id, timeout_s, context.output_bytes
        )
    except CommandError as error:
        return Outcome("error", str(error), changed=False)
    if ended.cancelled:
        return Outcome("error", _with(ended.output, CANCELLED), ended.exit_code)
    if ended.timed_out:
        note = f"stopped after {timeout_s:g} s, with everything it had started"
        return Outcome("timeout", _with(ended.output, note), ended.exit_code)
    return Outcome("success" if ended.exit_code == 0 else "failure", ended.output, ended.exit_code)


def _with(output: str, note: str) -> str:
    newline = "\n" if output and not output.endswith("\n") else ""
    return f"{output}{newline}[{note}]"


def wait(args: dict[str, Any], context: Context) -> Outcome:
    """Wait, at most as long as an action may take."""
    seconds = min(float(args["seconds"]), context.timeout_s)
    if not context.wire.pause(context.request_id, seconds):
        return Outcome("error", CANCELLED)
    return Outcome("success", "")
