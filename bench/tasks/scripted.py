"""A model that knows the answer, over a real connection: it looks at the file, edits it, runs the
tests and says so. It shows what the harness and the agents cost, and nothing about a model.
"""

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.models import Model
from bench.tasks.tasks import Task
from tests.scripted_server import ScriptedServer

MODEL = "scripted"


@dataclass
class Wire:
    """What came over the wire since the last `play`."""

    server: ScriptedServer
    play: Callable[[Task], None] = field(init=False)

    def __post_init__(self) -> None:
        self.play = lambda task: self.server.play(script_of(task))

    @property
    def model(self) -> Model:
        return Model(
            provider="openai", name=MODEL, base_url=self.server.openai_url, key="bench-no-key"
        )

    @property
    def requests(self) -> int:
        return len(self.server.requests)

    @property
    def bytes(self) -> int:
        return sum(len(request.body) for request in self.server.requests)


@contextmanager
def serve() -> Iterator[Wire]:
    """A scripted server while it is needed."""
    with ScriptedServer() as server:
        yield Wire(server)


def script_of(task: Task) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The replies of a model that solves the task with the tools it is offered."""

    def reply(request: dict[str, Any]) -> dict[str, Any]:
        offered = {tool["function"]["name"] for tool in request.get("tools", ())}
        calls = _with_bash(task) if "bash" in offered else _with_tools(task)
        done = sum(message["role"] == "tool" for message in request["messages"])
        return {"calls": [calls[done]]} if done < len(calls) else {"text": "Fixed."}

    return reply


def _with_tools(task: Task) -> list[dict[str, Any]]:
    edit = {"path": task.target, "old_text": task.old_text, "new_text": task.new_text}
    return [
        {"name": "read_file", "arguments": {"path": task.target}},
        {"name": "edit_file", "arguments": edit},
        {"name": "shell", "arguments": {"command": _check(task)}},
    ]


def _with_bash(task: Task) -> list[dict[str, Any]]:
    program = (
        "import json, pathlib, sys; path, old, new = json.loads(sys.argv[1]); "
        "file = pathlib.Path(path); file.write_text(file.read_text().replace(old, new))"
    )
    given = json.dumps([task.target, task.old_text, task.new_text])
    commands = [
        f"cat {shlex.quote(task.target)}",
        shlex.join(["python3", "-c", program, given]),
        _check(task),
    ]
    return [{"name": "bash", "arguments": {"command": command}} for command in commands]


def _check(task: Task) -> str:
    """What can be run before the work is judged."""
    return f"python3 -m py_compile {shlex.quote(task.target)}" if task.hidden else task.command
