"""Commands and waiting."""

from typing import Any

from clew_worker.executor.launcher import CommandError
from clew_worker.executor.tools.outcome import ToolContext, ToolOutcome


def run_cmd(args: dict[str, Any], context: ToolContext) -> ToolOutcome:
    """Run a command; it is over when the command itself ends, whatever it leaves running."""
    own_s = float(args.get("timeout_s", context.timeout_s))
    timeout_s = min(own_s, context.timeout_s)
    try:
        end = context.commands.run(args["cmd"], timeout_s, context.output_bytes, context.said)
    except CommandError as error:
        return ToolOutcome("error", str(error), changed=False)
    if end.timed_out:
        limit = context.limit if timeout_s == context.timeout_s else "its own timeout_s"
        why = f" ({limit})" if limit else ""
        note = f"[stopped after {timeout_s:g} s{why}, with everything it had started]"
        newline = "\n" if end.output and not end.output.endswith("\n") else ""
        return ToolOutcome("timeout", f"{end.output}{newline}{note}", end.exit_code)
    return ToolOutcome("success" if end.exit_code == 0 else "failure", end.output, end.exit_code)


def wait(args: dict[str, Any], context: ToolContext) -> ToolOutcome:
    """Wait, at most as long as an action may take."""
    context.wire.pause(min(float(args["seconds"]), context.timeout_s))
    return ToolOutcome("success", "")
