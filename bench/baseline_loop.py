"""The yardstick: the plainest agent loop with the same SDK, which keeps nothing and checks nothing.

`python baseline_loop.py TASK` asks, runs the shell calls of each reply, and asks again.
"""

import json
import subprocess
import sys
from typing import Any

from openai import OpenAI

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}
messages: list[Any] = [{"role": "user", "content": sys.argv[1]}]
client = OpenAI(max_retries=0)
while True:
    stream: Any = client.chat.completions.create(
        model="gpt-4o", messages=messages, tools=[TOOL], stream=True
    )
    text = ""
    calls: dict[int, dict[str, str]] = {}
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                call = calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
                call["id"] = piece.id or call["id"]
                call["name"] = piece.function.name or call["name"]
                call["arguments"] += piece.function.arguments or ""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if not calls:
        break
    message["tool_calls"] = [
        {
            "id": c["id"],
            "type": "function",
            "function": {"name": c["name"], "arguments": c["arguments"]},
        }
        for c in calls.values()
    ]
    messages.append(message)
    for call in calls.values():
        command = json.loads(call["arguments"])["command"]
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout})
print(text)
