"""A parent and its children as real processes, against a real server."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kode.config.load import load_config
from kode.conversation import Settings, open_conversation
from kode.events import no_emit
from kode.permissions.question import Answer, Question
from kode.subagents import records
from tests.e2e import command
from tests.e2e.background import until
from tests.scripted_server import ScriptedServer

ORPHANS_GONE_S = 5.0
"""A second after their parent, on a busy machine."""

Reply = dict[str, Any]
ChildScript = Callable[[str, list[dict[str, Any]]], Reply]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(keep=100) as running:
        yield running


@dataclass
class Place(command.Place):
    """A project, a home, and an environment that reaches nothing but the server."""

    server: ScriptedServer = field(kw_only=True)

    def config(self, **values: Any) -> None:
        self.home.mkdir(exist_ok=True)
        (self.home / "config.json").write_text(json.dumps(values))

    def begin(self, *arguments: str) -> "subprocess.Popen[str]":
        return self.start(*arguments, "--permission-mode", "full")

    def result(self, *arguments: str) -> dict[str, Any]:
        return self.run(*arguments, "--permission-mode", "full", "--output-format", "json").json

    def play(self, goals: list[str], child: ChildScript) -> None:
        """The parent delegates `goals`, then answers with what it was told; `child` gives the
        reply to a child from its goal and the messages after its first."""

        def script(request: dict[str, Any]) -> Reply:
            messages = [m for m in request["messages"] if m["role"] != "system"]
            goal = goal_of(messages[0])
            if goal is not None:
                return child(goal, messages[1:])
            last = messages[-1]
            if last["role"] == "user" and "delegate" in text_of(last):
                tasks = [{"goal": goal} for goal in goals]
                return {"calls": [{"name": "delegate_tasks", "arguments": {"tasks": tasks}}]}
            return {"text": f"I was told:\n{text_of(last)}"}

        self.server.play(script)

    def agents(self) -> list[records.ChildRecord]:
        (path,) = self.session_files
        return records.read_records(path.with_suffix("") / "agents")

    def wait_until_alone(self) -> None:
        """Waits until no process of a subagent is left."""
        folders = (self.home / "sessions").glob("*/agents")
        agents = [record for folder in folders for record in records.read_records(folder)]
        until(lambda: not any(record.is_alive for record in agents), ORPHANS_GONE_S)


@pytest.fixture
def place(tmp_path: Path, server: ScriptedServer) -> Place:
    extra = {"KODE_MODEL": "gpt-4o", "KODE_MEMORY": "off"}
    return Place(tmp_path, server.openai_url, extra, server=server)


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(p.get("text", "") for p in content)


def goal_of(message: dict[str, Any]) -> str | None:
    lines = text_of(message).splitlines()
    return lines[lines.index("# Goal") + 1] if "# Goal" in lines else None


def shell(command: str) -> Reply:
    return {"calls": [{"name": "shell", "arguments": {"command": command}}]}


def sleeps(goal: str, messages: list[dict[str, Any]]) -> Reply:
    return (
        {"text": "slept"} if messages else shell(f"(setsid sleep 61.5 &); touch {goal}; sleep 61.5")
    )


def test_one_budget_of_steps_holds_for_the_whole_tree(place: Place) -> None:
    def child(goal: str, messages: list[dict[str, Any]]) -> Reply:
        return {"calls": [{"name": "list_files", "arguments": {}}]}

    place.play(["a", "b"], child)

    result = place.result("run", "delegate this", "--max-steps", "12")

    assert "9 steps" in result["result"]
    assert place.server.count <= 12
    assert result["status"] == "success"


async def test_children_are_asked_about_by_name_and_session_answers_hold(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(choice="session")

    def child(goal: str, messages: list[dict[str, Any]]) -> Reply:
        if messages:
            return {"text": "done"}
        arguments = {"path": f"src/{goal}.txt", "content": goal}
        return {"calls": [{"name": "write_file", "arguments": arguments}]}

    place.play(["one", "two"], child)
    for name, value in place.environ.items():
        monkeypatch.setenv(name, value)
    loaded = load_config(place.home, place.project, environ=os.environ, flags={})
    conversation = await open_conversation(
        Settings(loaded, emit=no_emit, ask=ask), cwd=place.project
    )
    try:
        await conversation.turn("delegate this")
        assert (place.project / "src/one.txt").read_text() == "one"
        assert (place.project / "src/two.txt").read_text() == "two"
        undone = await conversation.undo()
    finally:
        await conversation.close()

    askers = [question.asker for question in asked]
    assert askers[0] == ""
    assert "1. one" in asked[0].preview
    assert askers[1].startswith("subagent ")
    assert len(asked) == 2
    assert undone.count("removed") == 2
    assert not (place.project / "src/one.txt").exists()


def test_stopping_the_parent_ends_the_tree_and_the_model_learns(place: Place) -> None:
    place.play(["a", "b"], sleeps)
    process = place.begin("run", "delegate this")
    until((place.project / "a").exists)
    until((place.project / "b").exists)

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)

    assert process.returncode == 130
    place.wait_until_alone()
    statuses = [record.result and record.result.status for record in place.agents()]
    assert statuses == ["interrupted"] * 2
    assert place.result("continue", "go on")["result"].count(": interrupted, ") == 2


@pytest.mark.parametrize("mode", ["full", "auto-edit"])
def test_continue_reports_the_children_of_a_killed_parent_once(place: Place, mode: str) -> None:
    def child(goal: str, messages: list[dict[str, Any]]) -> Reply:
        return {"text": "the early finding"} if goal == "quick" else sleeps(goal, messages)

    place.play(["quick", "slow"], child)
    process = place.begin("run", "--permission-mode", mode, "delegate this")
    until((place.project / "slow").exists)
    until(lambda: any(record.result for record in place.agents()))

    process.kill()
    process.communicate(timeout=30)
    first = place.result("continue", "what came out?")["result"]

    statuses = [record.result and record.result.status for record in place.agents()]
    assert statuses == ["success", "interrupted"]
    place.wait_until_alone()
    assert "the early finding" in first
    assert "interrupted" in first
    second = place.result("continue", "and now?")["result"]
    assert "the early finding" not in second
