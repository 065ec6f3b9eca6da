"""Finds the function of a tool; their schemas are in `clew_shared.tools`."""

from collections.abc import Callable
from typing import Any

from clew_worker.executor.tools import editing, files, finding, shell
from clew_worker.executor.tools.arguments import BadArgumentsError, check_arguments
from clew_worker.executor.tools.outcome import ToolContext, ToolOutcome
from clew_worker.executor.workspace import MissingError, PathError

CARRIED_OUT: dict[str, Callable[[dict[str, Any], ToolContext], ToolOutcome]] = {
    "run_cmd": shell.run_cmd,
    "wait": shell.wait,
    "read_file": files.read_file,
    "write_file": files.write_file,
    "edit_file": editing.edit_file,
    "list_files": finding.list_files,
    "search": finding.search,
}


def carry_out(name: str, args: dict[str, Any], context: ToolContext) -> ToolOutcome:
    """Carry out one action; whatever is wrong with it becomes an outcome with a message for the agent."""
    try:
        checked = check_arguments(name, args)
        if name not in CARRIED_OUT:
            return ToolOutcome("error", f"{name} is not a tool that acts in the workspace")
        return CARRIED_OUT[name](checked, context)
    except MissingError as error:
        return ToolOutcome("error", f"{error}{finding.nearby(context.workspace, error.path)}")
    except (BadArgumentsError, PathError) as error:
        return ToolOutcome("error", str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return ToolOutcome("error", f"{name}: {where}{error.strerror or error}")
