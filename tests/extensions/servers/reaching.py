"""A server that tries what its process can reach: writes a file, reads a variable. It needs nothing
but Python, so that any interpreter that a sandbox shows can run it."""

import json
import os
import sys

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
DESCRIBED = {"write": "Writes a file.", "variable": "Reads a variable."}
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "reaching", "version": "1"},
    },
    "tools/list": {
        "tools": [
            {"name": name, "description": text, "inputSchema": SCHEMA}
            for name, text in DESCRIBED.items()
        ]
    },
}


def call(name, path):
    if name == "variable":
        return os.environ.get(path, "(not set)"), False
    try:
        with open(path, "w") as file:
            file.write("written")
    except OSError as error:
        return str(error), True
    return "done", False


for line in sys.stdin:
    request = json.loads(line)
    answer = {"error": {"code": -32601, "message": "no"}}
    if request["method"] in RESULTS:
        answer = {"result": RESULTS[request["method"]]}
    elif request["method"] == "tools/call":
        text, failed = call(request["params"]["name"], request["params"]["arguments"]["path"])
        answer = {"result": {"content": [{"type": "text", "text": text}], "isError": failed}}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
