"""Finds the function of a tool, and runs commands; the schemas are in `clew_shared.tools`."""

from collections.abc import Callable, Mapping

from clew_shared.text.spelling import closest
from clew_shared.tools import BY_NAME, Schema
from clew_worker.executor.commands import CommandError
from clew_worker.executor.tools import files, finding
from clew_worker.executor.tools.files import ToolContext, ToolOutcome
from clew_worker.executor.workspace import MissingError, PathError

_NUMBER_MAX = 1_000_000_000


class BadArgumentsError(Exception):
    """The tool is unknown, or its arguments are wrong; the text says what would be right."""


def _as_number(value: object, *, whole: bool) -> object:
    """Take "5" for 5 and 5.0 for 5, as small models write them; anything else stays as it is."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return value
    if whole and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _checked(tool: str, key: str, schema: Schema, value: object) -> object:
    """Return an argument in its proper type; BadArgumentsError where it has another one."""
    kind = schema.get("type")
    if kind in ("integer", "number"):
        value = _as_number(value, whole=kind == "integer")
        least = schema.get("minimum", 0)
        if isinstance(value, int | float) and not isinstance(value, bool):
            fits = kind == "number" or isinstance(value, int)
            if fits and least <= value <= _NUMBER_MAX:  # what is no number (NaN) is neither
                return value
        try:
            shown = f"{value!r:.60}"
        except ValueError:
            shown = "a number with thousands of digits"
        raise BadArgumentsError(
            f"{tool}: {key} must be {'a whole number' if kind == 'integer' else 'a number'} "
            f"of at least {least} and at most {_NUMBER_MAX:,}, not {shown}"
        )
    words = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
    if isinstance(value, str) or ("anyOf" in schema and words):
        return value
    wanted = "a string or a list of strings" if "anyOf" in schema else "a string"
    raise BadArgumentsError(f"{tool}: {key} must be {wanted}, not {type(value).__name__}")


def check_arguments(name: str, args: Mapping[str, object]) -> dict[str, object]:
    """Return arguments in their proper types, without optional nulls; BadArgumentsError where they do not fit."""
    tool = BY_NAME.get(name)
    if tool is None:
        near = closest(name, BY_NAME)
        hint = f" Did you mean {near}?" if near else ""
        raise BadArgumentsError(
            f"tool {name:.60} not found; available: {', '.join(BY_NAME)}.{hint}"
        )
    properties: dict[str, Schema] = tool.parameters["properties"]
    required: list[str] = tool.parameters["required"]
    given = {key: value for key, value in args.items() if value is not None or key in required}
    if unknown := [key for key in given if key not in properties]:
        raise BadArgumentsError(
            f"{name} has no argument {', '.join(unknown):.80}; it takes: {', '.join(properties)}"
        )
    if absent := [key for key in required if key not in given]:
        raise BadArgumentsError(
            f"{name} needs {', '.join(absent)}; it takes: {', '.join(properties)} "
            f"(required: {', '.join(required)})"
        )
    return {key: _checked(name, key, properties[key], value) for key, value in given.items()}


def run_cmd(
    context: ToolContext, cmd: str | list[str], timeout_s: float | None = None
) -> ToolOutcome:
    """Run a command; it is over when the command itself ends, whatever it leaves running."""
    timeout_s = min(context.timeout_s if timeout_s is None else timeout_s, context.timeout_s)
    try:
        end = context.commands.run(cmd, timeout_s, context.output_bytes, context.said)
    except CommandError as error:
        return ToolOutcome("error", str(error), changed=False)
    if end.timed_out:
        limit = context.limit if timeout_s == context.timeout_s else "its own timeout_s"
        why = f" ({limit})" if limit else ""
        note = f"[stopped after {timeout_s:g} s{why}, with everything it had started]"
        newline = "\n" if end.output and not end.output.endswith("\n") else ""
        return ToolOutcome("timeout", f"{end.output}{newline}{note}", end.exit_code)
    return ToolOutcome("success" if end.exit_code == 0 else "failure", end.output, end.exit_code)


def wait(context: ToolContext, seconds: float) -> ToolOutcome:
    """Wait, at most as long as an action may take."""
    context.wire.pause(min(seconds, context.timeout_s))
    return ToolOutcome("success", "")


CARRIED_OUT: dict[str, Callable[..., ToolOutcome]] = {
    "run_cmd": run_cmd,
    "wait": wait,
    "read_file": files.read_file,
    "write_file": files.write_file,
    "edit_file": files.edit_file,
    "list_files": finding.list_files,
    "search": finding.search,
}


def carry_out(name: str, args: Mapping[str, object], context: ToolContext) -> ToolOutcome:
    """Carry out one action; whatever is wrong with it becomes an outcome with a message for the agent."""
    try:
        checked = check_arguments(name, args)
        if name not in CARRIED_OUT:
            return ToolOutcome("error", f"{name} is not a tool that acts in the workspace")
        return CARRIED_OUT[name](context, **checked)
    except MissingError as error:
        return ToolOutcome("error", f"{error}{finding.nearby(context.workspace, error.path)}")
    except (BadArgumentsError, PathError) as error:
        return ToolOutcome("error", str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return ToolOutcome("error", f"{name}: {where}{error.strerror or error}")
