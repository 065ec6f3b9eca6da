"""An MCP server on stdio in clew's place: its tools by name, plain answers, a refusal of each third equal call.

Run as a program: mcp_double.py LOG, a file that each call is appended to as a line of JSON. `sleep N` is answered
after N seconds.
"""

import json
import sys
import time
from pathlib import Path

TOOLS = ("run", "read", "write", "edit", "list", "search", "recall", "wait", "done", "plan", "ask")
REFUSAL = "refused: this call has failed twice already with the same result; try something else"


def tool(name):
    properties = {key: {"type": "string"} for key in ("cmd", "path", "content", "question")}
    schema = {"type": "object", "properties": properties}
    return {"name": f"clew_{name}", "description": f"{name}, by clew", "inputSchema": schema}


def answer(method, params, log):
    """The result of one request, None for a method that is not known."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "clew", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [tool(name) for name in TOOLS]}
    if method == "tools/call":
        return called(params["name"], params.get("arguments") or {}, log)
    return {} if method == "ping" else None


def called(name, args, log):
    before = log.read_text().splitlines() if log.exists() else []
    line = json.dumps([name, args])
    with log.open("a") as file:
        file.write(line + "\n")
    if args.get("cmd", "").startswith("sleep "):
        time.sleep(float(args["cmd"].removeprefix("sleep ")))
    failed = args.get("cmd", "").startswith("false")
    text = f"exit code {int(failed)}"
    if before.count(line) >= 2:
        failed, text = True, REFUSAL
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def main(log):
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request["method"], request.get("params") or {}, log)
        reply = {"jsonrpc": "2.0", "id": request["id"]}
        unknown = {"code": -32601, "message": "method not found"}
        reply |= {"error": unknown} if result is None else {"result": result}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
