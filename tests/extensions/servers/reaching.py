"""A server that tries what its process can reach: writes a file, reads a variable. It needs nothing
but Python, so that any interpreter that a sandbox shows can run it."""

import json
import os
import sys

PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}}
TOOLS = [
    {"name": "write", "description": "Writes a file.", "inputSchema": PATH},
    {"name": "variable", "description": "Reads a variable.", "inputSchema": NAME},
]


def call(name, given):
    if name == "variable":
        return os.environ.get(given["name"], "(not set)"), False
    try:
        with open(given["path"], "w") as file:
            file.write("written")
    except OSError as error:
        return str(error), True
    return "done", False


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "reaching", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    text, failed = call(params["name"], params["arguments"])
    return {"content": [{"type": "text", "text": text}], "isError": failed}


for line in sys.stdin:
    request = json.loads(line)
    if request.get("method") in ("initialize", "tools/list", "tools/call"):
        result = answer(request["method"], request.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
    elif "id" in request:
        fault = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": fault}), flush=True)
