"""The catalogue of the built-in tools (docs/protocol.md): what a model is told of each, and what clew knows of it.

Descriptions are short and plain, since small models read them. The executor carries tools out.
"""

from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]  # a JSON schema, or a part of one


@dataclass(frozen=True)
class Tool:
    """A tool as a model is told of it: `parameters` is its JSON schema (an object)."""

    name: str
    description: str
    parameters: Schema


def text_schema(description: str) -> Schema:
    return {"type": "string", "description": description}


def _whole(description: str) -> Schema:
    return {"type": "integer", "minimum": 1, "description": description}


def schema(*optional: str, **properties: Schema) -> Schema:
    """Return the schema of a tool's arguments, by the names of those that may be left out, and those of each."""
    return {
        "type": "object",
        "properties": properties,
        "required": [key for key in properties if key not in optional],
        "additionalProperties": False,
    }


_PATH = text_schema("Path of a file, relative to the workspace.")
_SECONDS = {"type": "number", "minimum": 0}

TOOLS = (  # an argument that is a path is called `path` or `*_path`: signatures go by that
    Tool(
        "run_cmd",
        "Run any shell command: mkdir, mv, rm, sed, sort, tests, or several joined by &&. "
        "Returns output and exit code.",
        schema(
            "timeout_s",
            cmd={
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
                "description": "A shell command line, or a list of program and arguments.",
            },
            timeout_s={**_SECONDS, "description": "Stop the command after this many seconds."},
        ),
    ),
    Tool(
        "read_file",
        "Read a text file.",
        schema(
            "start_line",
            "max_lines",
            path=_PATH,
            start_line=_whole("First line to read; the first is 1."),
            max_lines=_whole("How many lines to read at most."),
        ),
    ),
    Tool(
        "write_file",
        "Create or replace a file: its whole content.",
        schema(path=_PATH, content=text_schema("The whole new text of the file.")),
    ),
    Tool(
        "edit_file",
        "Replace exact text in a long file.",
        schema(
            "count",
            path=_PATH,
            old=text_schema("The text to replace, exactly as it is in the file."),
            new=text_schema("The text to put in its place."),
            count=_whole("How often `old` is in the file, if more than once; all are replaced."),
        ),
    ),
    Tool(
        "list_files",
        "List files and folders.",
        schema(
            "path",
            "depth",
            path=text_schema("Folder to list, relative to the workspace. Default: the workspace."),
            depth=_whole("How many levels deep. Default: 3."),
        ),
    ),
    Tool(
        "search",
        "Search the text of files for a regular expression.",
        schema(
            "path",
            "max",
            pattern=text_schema("Regular expression (Python syntax)."),
            path=text_schema("File or folder to search in. Default: the workspace."),
            max=_whole("How many matches to return at most. Default: 100."),
        ),
    ),
    Tool(
        "wait",
        "Wait for something that is running.",
        schema(
            "why",
            seconds={**_SECONDS, "description": "How many seconds."},
            why=text_schema("What you are waiting for."),
        ),
    ),
    Tool(
        "recall",
        "Show an earlier output again, in full.",
        schema(seq=_whole("The action's number.")),
    ),
    Tool(
        "finish",
        "Say that the whole goal is done.",
        schema(
            "tests_changed",
            summary=text_schema("What was done, in one or two sentences."),
            tests_changed=text_schema("Only when asked for: why the goal needs changed tests."),
        ),
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
WRITE_ONLY_TOOLS = frozenset({"write_file", "edit_file"})
"""Their output says nothing new: the result alone is their outcome."""

IDLE_TOOLS = frozenset({"wait", "recall"})  # they do not act: their success proves nothing
TEXT_TOOLS = frozenset({"read_file", "recall"})
"""They show a text for its own sake, so that more of their output stays in a prompt."""

SHELL_TOOLS = frozenset({"list_files", "search"})
"""A short shell command does the same, so that a small goal without a plan does not need them."""

NO_LONGER = "; no longer in it: "
"""In the result of `write_file`: between what was written and the lines that the file has lost."""

NO_EDIT = "old and new are the same"  # begins the error of an `edit_file` that would change nothing
