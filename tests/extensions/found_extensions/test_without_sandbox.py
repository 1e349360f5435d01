"""A repository's servers and hooks on a machine that has no sandbox."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kode.conversation import Conversation
from kode.errors import SandboxUnknownError
from kode.events import Event, Notice
from kode.extensions import mcp_config, trust
from kode.permissions.question import Answer, Question
from tests.extensions.found_extensions.conftest import Open, World
from tests.extensions.found_extensions.test_hook_moments import DONE, EDIT, finished, hooks, runs
from tests.needs import PLAIN_PYTHON

SERVERS = Path(__file__).parent.parent / "servers"


@pytest.fixture(autouse=True)
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    named = "kode.sandbox.sandbox.Sandbox"
    monkeypatch.setattr(f"{named}.fault", lambda self, kind, layered=False: "broken")
    monkeypatch.setattr("kode.sandbox.sandbox.Sandbox.unavailable_reason", lambda self: "broken")


class Person:
    """Answers every question alike."""

    def __init__(self, choice: Any) -> None:
        self.choice = choice
        self.asked: list[str] = []

    async def __call__(self, question: Question) -> Answer:
        self.asked.append(question.subject)
        return Answer(choice=self.choice)


def bring_hook(world: World, event: str = "PreToolUse") -> None:
    hooks(world, (event, "*", "touch ../judged"), file=".claude/settings.json")
    world.approve()


def bring_servers(world: World, *names: str) -> None:
    script = shutil.copy(SERVERS / "reaching.py", world.project)
    entry = {"command": PLAIN_PYTHON, "args": [str(script)]}
    world.write(".mcp.json", json.dumps({"mcpServers": dict.fromkeys(names, entry)}))
    trust.approve(world.home, world.project, mcp_config.items(world.home, world.project))


def servers_of(talk: Conversation) -> dict[str, bool]:
    assert talk.extensions is not None
    return {name: server.runs for name, server in talk.extensions.servers.items()}


async def test_a_guard_that_cannot_judge_blocks_the_call(
    world: World, opened: Open, events: list[Event]
) -> None:
    bring_hook(world)
    talk = await opened({"calls": [EDIT]}, DONE, mode="full")
    await talk.turn("write")
    assert not (world.project / "a.txt").exists()
    assert [run.outcome for run in runs(talk)] == ["deny"]
    assert finished(events)[0].is_error


async def test_a_guard_blocks_when_the_person_refuses_to_run_it(world: World, opened: Open) -> None:
    bring_hook(world)
    talk = await opened({"calls": [EDIT]}, DONE, mode="full", ask=Person("no"))
    await talk.turn("write")
    assert not (world.project / "a.txt").exists()
    assert not (world.user_home / "judged").exists()


async def test_a_guard_whose_sandbox_cannot_be_made_blocks_the_call(
    world: World, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(self: Any, **given: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr("kode.sandbox.sandbox.Sandbox.is_available", lambda self: True)
    monkeypatch.setattr("kode.sandbox.sandbox.Sandbox.begin", begin)
    bring_hook(world)
    talk = await opened({"calls": [EDIT]}, DONE, mode="full")
    await talk.turn("write")
    assert not (world.project / "a.txt").exists()


async def test_no_hook_runs_outside_while_the_sandbox_is_unknown(
    world: World, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs_out_of_time(self: Any, kind: str, layered: bool = False) -> str:
        raise SandboxUnknownError("late")

    monkeypatch.setattr("kode.sandbox.sandbox.Sandbox.fault", runs_out_of_time)
    bring_hook(world)
    talk = await opened({"calls": [EDIT]}, DONE, mode="full", ask=Person("once"))
    await talk.turn("write")
    assert not (world.user_home / "judged").exists()
    assert [run.outcome for run in runs(talk)] == ["deny"]


async def test_a_hook_that_judges_nothing_is_skipped_without_blocking(
    world: World, opened: Open
) -> None:
    bring_hook(world, "PostToolUse")
    talk = await opened({"calls": [EDIT]}, DONE, mode="full")
    await talk.turn("write")
    assert (world.project / "a.txt").exists()
    assert not (world.user_home / "judged").exists()


async def test_a_hook_is_asked_about_once_and_then_runs(world: World, opened: Open) -> None:
    bring_hook(world)
    person = Person("once")
    for name in ("a.txt", "b.txt"):
        call = {"name": "write_file", "arguments": {"path": name, "content": "x"}}
        talk = await opened({"calls": [call]}, DONE, mode="full", ask=person)
        await talk.turn("write")
        assert (world.project / name).exists()
    assert (world.user_home / "judged").exists()
    assert len(person.asked) == 1


async def test_a_refusal_holds_for_the_session_only(world: World, opened: Open) -> None:
    bring_hook(world)
    person = Person("no")
    talk = await opened({"calls": [EDIT]}, {"calls": [EDIT]}, DONE, DONE, ask=person)
    await talk.turn("write")
    asked = len(person.asked)
    await talk.turn("write")
    again = await opened({"text": "x"}, ask=person)
    await again.turn("hello")
    assert (asked, len(person.asked)) == (1, 2)


async def test_a_changed_hook_is_asked_about_again(world: World, opened: Open) -> None:
    bring_hook(world)
    person = Person("once")
    await (await opened({"text": "x"}, ask=person)).turn("hello")
    hooks(world, ("PreToolUse", "*", "touch other"), file=".claude/settings.json")
    world.approve()
    await (await opened({"text": "x"}, ask=person)).turn("hello")
    assert len(person.asked) == 2


async def test_each_server_is_asked_about_once_and_then_runs(world: World, opened: Open) -> None:
    bring_servers(world, "one", "two")
    person = Person("once")
    for _ in range(2):
        talk = await opened(DONE, ask=person)
        await talk.turn("hello")
        assert talk.extensions is not None
        for server in talk.extensions.servers.values():
            await server.connected()
        assert servers_of(talk) == {"one": True, "two": True}
    assert len(person.asked) == 2


async def test_a_server_does_not_start_when_nobody_says_yes(
    world: World, opened: Open, events: list[Event]
) -> None:
    bring_servers(world, "one")
    for person in (None, Person("no")):
        talk = await opened(DONE, ask=person)
        await talk.turn("hello")
        assert servers_of(talk) == {"one": False}
    assert any("kode doctor" in event.text for event in events if isinstance(event, Notice))


async def test_a_required_sandbox_leaves_no_question_to_ask(world: World, opened: Open) -> None:
    bring_servers(world, "one")
    bring_hook(world)
    earlier = [trust.outside(item) for item in world.find().items()]
    trust.approve(world.home, world.project, earlier)
    person = Person("once")
    talk = await opened({"calls": [EDIT]}, DONE, ask=person, **{"sandbox.enabled": True})
    await talk.turn("write")
    assert servers_of(talk) == {"one": False}
    assert not [one for one in person.asked if "sandbox" in one]
    assert not (world.user_home / "judged").exists()


async def test_trusting_the_project_keeps_it_in_the_sandbox(world: World) -> None:
    bring_servers(world, "one")
    approvals = trust.load(world.home, world.project, trust_project=True)
    (item,) = mcp_config.items(world.home, world.project)
    assert trust.state(item, approvals) == "trusted"
    assert trust.state(trust.outside(item), approvals) == "new"


OFF = {"sandbox.enabled": False}


async def test_trusting_a_project_does_not_let_its_hook_outside(world: World, opened: Open) -> None:
    bring_hook(world)
    talk = await opened({"calls": [EDIT]}, DONE, mode="full", trust_project=True, **OFF)
    await talk.turn("write")
    assert not (world.user_home / "judged").exists()
    assert not (world.project / "a.txt").exists()


async def test_a_yes_lets_a_hook_run_with_the_sandbox_off(world: World, opened: Open) -> None:
    bring_hook(world)
    person = Person("once")
    for _ in range(2):
        talk = await opened({"calls": [EDIT]}, DONE, mode="full", ask=person, **OFF)
        await talk.turn("write")
    assert (world.user_home / "judged").exists()
    assert len(person.asked) == 1


async def test_ones_own_hook_runs_with_the_sandbox_off(world: World, opened: Open) -> None:
    hooks(world, ("PreToolUse", "*", "touch ../judged"))
    await (await opened({"calls": [EDIT]}, DONE, mode="full", **OFF)).turn("write")
    assert (world.user_home / "judged").exists()


@pytest.mark.parametrize("choice", ["once", "no"])
async def test_a_server_needs_a_yes_with_the_sandbox_off(
    world: World, opened: Open, choice: str
) -> None:
    bring_servers(world, "one")
    talk = await opened(DONE, ask=Person(choice), **OFF)
    await talk.turn("hello")
    assert servers_of(talk) == {"one": choice == "once"}
