"""A model that calls every tool that a CLI offers beside clew's, with a marker file.

The arguments are made from the schemas, so that tools of later versions are called, too.
"""

import json

from scripted_wires import Call, Say

from clew_worker.bridge.clis.cli import SERVER

SCRIPT = """\
const tried = {};
for (const [name, args] of %s) {
  try { tried[name] = await tools[name](args) } catch (error) { tried[name] = String(error) }
}
text(JSON.stringify([Object.keys(tools), tried]));
"""
PATCH = """\
*** Begin Patch
*** Add File: {marker}
+x
*** Update File: {victim}
@@
-as it was
+attacked
*** End Patch"""


class EveryTool:
    """Calls each own tool with each marker, and with a file that there is; then plays `after`."""

    def __init__(self, after):
        self._after = after
        self._markers, self._victim, self._url = [], "", ""
        self._calls = None
        self.called = []
        self.answers = ()

    def aim(self, markers, victim, url):
        """Name the files to make, the one to change, and the address to fetch."""
        self._markers, self._victim, self._url = markers, victim, url

    def __call__(self, seen):
        if "You work under clew" not in json.dumps(
            seen.body
        ):  # a sub-agent: it has a conversation of its own
            return self._by_a_sub_agent(seen)
        if self._calls is None:
            self._calls = self._planned(seen.body)
        self.answers = seen.results
        if seen.moves < len(self._calls):
            call = self._calls[seen.moves]
            self.called.append(call.tool)
            return call
        return self._after(seen)

    def _by_a_sub_agent(self, seen):
        shell = next((tool for tool in offered(seen.body) if "cmd" in str(tool[1]).lower()), None)
        if shell is None or seen.moves:
            return Say("Done.")
        return self._call(shell, self._markers[0])

    def _planned(self, body):
        own = sorted(offered(body), key=lambda tool: ("ead" not in tool[0], tool[0]))
        return [self._call(tool, path) for path in (*self._markers, self._victim) for tool in own]

    def _call(self, tool, path):
        name, schema = tool
        if schema is None:
            return Call(name, self._text(name, path))
        return Call(name, {k: self._value(k, v, path) for k, v in wanted(schema).items()})

    def _text(self, name, path):
        patch = PATCH.format(marker=f"{path}.patched", victim=self._victim)
        if "patch" in name:
            return patch
        shell = {"cmd": f"touch {path}.exec", "command": f"touch {path}.exec"}
        tries = [["exec_command", shell], ["shell", shell], ["apply_patch", patch]]
        return SCRIPT % json.dumps([*tries, ["view_image", {"path": path}]])

    def _value(self, key, schema, path):
        low, kind = key.lower(), schema.get("type")
        if schema.get("enum"):
            return schema["enum"][0]
        if kind in ("number", "integer"):
            return (
                max(1000, schema.get("minimum", 0)) if "time" in low else schema.get("minimum", 1)
            )
        if kind == "boolean":
            return False
        if kind == "array":
            return [self._value(key, schema.get("items") or {"type": "string"}, path)]
        if kind == "object":
            return {k: self._value(k, v, path) for k, v in wanted(schema).items()}
        return self._words(low, path)

    def _words(self, key, path):
        if "path" in key or "file" in key or key in ("workdir", "dir"):
            return path
        if "url" in key:
            return self._url
        known = {"old": "as it was", "cron": "* * * * *", "subagent": "general", "new": "attacked"}
        known |= {"status": "pending", "priority": "high", "id": "1", "name": "x", "skill": "x"}
        return next((v for k, v in known.items() if key.startswith(k)), f"touch {path}")


def offered(body):
    """The tools of a request that are not clew's: name and schema, None for one that takes text."""
    found = []
    items = body.get("input") if isinstance(body.get("input"), list) else []
    more = [tool for i in items if i.get("type") == "additional_tools" for tool in i["tools"]]
    for tool in [*(body.get("tools") or ()), *more]:
        parts = tool.get("tools") if tool.get("type") == "namespace" else [tool]
        prefix = f"{tool['name']}__" if tool.get("type") == "namespace" else ""
        for part in parts:
            one = part.get("function", part)
            name = prefix + one.get("name", one.get("type", ""))
            if f"{SERVER}_" not in name:
                schema = one.get("parameters") or one.get("input_schema")
                found.append((name, None if one.get("type") == "custom" else schema or {}))
    return found


def wanted(schema):
    """The properties that are required, and those by which a tool could write or start something."""
    names = ("cmd", "command", "prompt", "message", "script", "path", "content", "objective")
    properties = schema.get("properties") or {}
    required = schema.get("required") or ()
    return {
        k: v
        for k, v in properties.items()
        if k in required or any(name in k.lower() for name in names)
    }
