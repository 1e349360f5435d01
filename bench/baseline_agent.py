"""The yardstick for work: one tool, `bash`, in a loop with the provider's own SDK.

`python baseline_agent.py TASK` works in the current folder. By environment: PROVIDER, MODEL,
BASE_URL, KEY, MAX_STEPS, and SHELL_WORDS, a JSON list of the words before `bash -c`, which confine
it. The last line of its output is what it did, as JSON. A block ```bash in a reply without calls
counts as a call, so that models which do not call tools can be measured too.
"""

import json
import os
import re
import subprocess
import sys
from typing import Any

MODEL, STEPS = os.environ["MODEL"], int(os.environ["MAX_STEPS"])
SYSTEM = "You work on the project in the current folder with the tool bash. When done, say so."
ABOUT = "Runs a command; gives its output and its exit status."
SCHEMA: Any = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
}
MAX_CHARS, COMMAND_S = 10_000, 120
messages: list[Any] = [{"role": "user", "content": sys.argv[1]}]
usage = {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0}


def ask_openai() -> tuple[str, list[tuple[str, Any]]]:
    function = {"name": "bash", "description": ABOUT, "parameters": SCHEMA}
    done = client.chat.completions.create(
        model=MODEL, tools=[{"type": "function", "function": function}],
        messages=[{"role": "system", "content": SYSTEM}, *messages])  # fmt: skip
    message = done.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    count(done.usage.prompt_tokens, done.usage.completion_tokens,
          getattr(done.usage.prompt_tokens_details, "cached_tokens", 0) or 0)  # fmt: skip
    return message.content or "", [(c.id, c.function.arguments) for c in message.tool_calls or ()]


def ask_anthropic() -> tuple[str, list[tuple[str, Any]]]:
    tool = {"name": "bash", "description": ABOUT, "input_schema": SCHEMA}
    done = client.messages.create(
        model=MODEL, system=SYSTEM, messages=messages, tools=[tool], max_tokens=8_000,
        extra_body={"cache_control": {"type": "ephemeral"}})  # fmt: skip
    messages.append({"role": "assistant", "content": [b.model_dump() for b in done.content]})
    cached, fresh = done.usage.cache_read_input_tokens or 0, done.usage.input_tokens
    count(
        fresh + cached + (done.usage.cache_creation_input_tokens or 0),
        done.usage.output_tokens,
        cached,
    )
    text = "".join(block.text for block in done.content if block.type == "text")
    return text, [(b.id, b.input) for b in done.content if b.type == "tool_use"]


def count(sent: int, said: int, cached: int) -> None:
    for key, tokens in zip(usage, (sent, said, cached), strict=True):
        usage[key] += tokens


def bash(arguments: Any) -> str:
    try:
        command = (json.loads(arguments) if isinstance(arguments, str) else arguments)["command"]
        words = [*json.loads(os.environ["SHELL_WORDS"]), "bash", "-c", command]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=COMMAND_S)  # fmt: skip
    except (ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        return f"Failed: {error!r}"[:MAX_CHARS]
    output = done.stdout.decode(errors="replace")
    if len(output) > MAX_CHARS:
        output = output[: MAX_CHARS // 2] + "\n...\n" + output[-MAX_CHARS // 2 :]
    return f"{output}\nexit status {done.returncode}"


client: Any
if os.environ["PROVIDER"] == "anthropic":
    from anthropic import Anthropic

    client, ask = (
        Anthropic(api_key=os.environ["KEY"], base_url=os.environ["BASE_URL"] or None),
        ask_anthropic,
    )
else:
    from openai import OpenAI

    client, ask = (
        OpenAI(api_key=os.environ["KEY"], base_url=os.environ["BASE_URL"] or None),
        ask_openai,
    )

status, steps, text = "error", 0, ""
while steps < STEPS:
    steps += 1
    text, calls = ask()
    if calls and ask is ask_anthropic:
        results = [{"type": "tool_result", "tool_use_id": i, "content": bash(a)} for i, a in calls]
        messages.append({"role": "user", "content": results})
    elif calls:
        messages += [{"role": "tool", "tool_call_id": i, "content": bash(a)} for i, a in calls]
    elif block := re.search(r"```(?:bash|sh)\n(.*?)```", text, re.DOTALL):
        messages.append({"role": "user", "content": bash({"command": block[1]})})
    else:
        status = "success"
        break
    print(json.dumps({"status": status, "steps": steps, "usage": usage}), flush=True)
print(json.dumps({"status": status, "steps": steps, "usage": usage, "result": text}))
