"""The yardstick for Responses: the plainest agent loop with the same SDK, like `baseline_loop`.

`python baseline_responses.py TASK` asks, runs the shell calls of each reply, and asks again.
"""

import json
import subprocess
import sys
from typing import Any

from openai import OpenAI

TOOL: Any = {
    "type": "function",
    "name": "shell",
    "description": "Run a command.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    "strict": False,
}
items: list[Any] = [{"role": "user", "content": sys.argv[1]}]
client = OpenAI(max_retries=0)
while True:
    stream: Any = client.responses.create(
        model="gpt-4o", input=items, tools=[TOOL], stream=True, store=False
    )
    text = ""
    calls: list[Any] = []
    for event in stream:
        if event.type == "response.output_text.delta":
            text += event.delta
        if event.type == "response.output_item.done":
            items.append(event.item.to_dict())
            calls += [event.item] if event.item.type == "function_call" else []
    if not calls:
        break
    for call in calls:
        command = json.loads(call.arguments)["command"]
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        output = {"type": "function_call_output", "call_id": call.call_id, "output": done.stdout}
        items.append(output)
print(text)
