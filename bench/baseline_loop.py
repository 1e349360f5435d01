"""The yardstick: the plainest agent loop with a vendor's SDK, which keeps and checks nothing.

`python baseline_loop.py chat|responses|messages TASK` asks, runs the shell calls of each reply, and
asks again.
"""

import json
import subprocess
import sys
from typing import Any

API, TASK = sys.argv[1:]
ABOUT = {"name": "shell", "description": "Run a command."}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
Calls = list[tuple[str, str]]
"""Id and command of each call of a reply."""

messages: list[Any] = [{"role": "user", "content": TASK}]
client: Any


def ask_chat() -> tuple[str, Calls]:
    tool = {"type": "function", "function": {**ABOUT, "parameters": SCHEMA}}
    text = ""
    calls: dict[int, Any] = {}
    for chunk in client.chat.completions.create(
        model="gpt-4o", messages=messages, tools=[tool], stream=True
    ):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                call = calls.setdefault(piece.index, empty)
                call["id"] = piece.id or call["id"]
                call["function"]["name"] += piece.function.name or ""
                call["function"]["arguments"] += piece.function.arguments or ""
    messages.append({"role": "assistant", "content": text, "tool_calls": [*calls.values()]})
    named = [(call["id"], call["function"]["arguments"]) for call in calls.values()]
    return text, [(id, json.loads(arguments)["command"]) for id, arguments in named]


def ask_responses() -> tuple[str, Calls]:
    tool = {"type": "function", **ABOUT, "parameters": SCHEMA, "strict": False}
    text, items = "", []
    for event in client.responses.create(
        model="gpt-4o", input=messages, tools=[tool], stream=True, store=False
    ):
        if event.type == "response.output_text.delta":
            text += event.delta
        if event.type == "response.output_item.done":
            items.append(event.item)
    messages.extend(item.to_dict() for item in items)
    calls = [item for item in items if item.type == "function_call"]
    return text, [(call.call_id, json.loads(call.arguments)["command"]) for call in calls]


def ask_messages() -> tuple[str, Calls]:
    tool = {**ABOUT, "input_schema": SCHEMA}
    with client.messages.stream(
        model="claude-sonnet-4-5", messages=messages, tools=[tool], max_tokens=8_000
    ) as stream:
        blocks = stream.get_final_message().content
    messages.append({"role": "assistant", "content": [block.model_dump() for block in blocks]})
    calls = [(block.id, block.input["command"]) for block in blocks if block.type == "tool_use"]
    return "".join(block.text for block in blocks if block.type == "text"), calls


def result_of(id: str, output: str) -> dict[str, Any]:
    if API == "chat":
        return {"role": "tool", "tool_call_id": id, "content": output}
    if API == "responses":
        return {"type": "function_call_output", "call_id": id, "output": output}
    block = {"type": "tool_result", "tool_use_id": id, "content": output}
    return {"role": "user", "content": [block]}


if API == "messages":
    from anthropic import Anthropic

    client, ask = Anthropic(max_retries=0), ask_messages
else:
    from openai import OpenAI

    client, ask = OpenAI(max_retries=0), ask_chat if API == "chat" else ask_responses

while True:
    text, calls = ask()
    if not calls:
        break
    for id, command in calls:
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        messages.append(result_of(id, done.stdout))
print(text)
