"""`kode.open` and its turns: events, tools, the gate, cancellation, the process left alone."""

import asyncio
import base64
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pydantic
import pytest

import kode
from kode.events import Event, Notice, SessionStarted, Steered, TextDelta, ToolFinished, TurnEnded
from tests.api.conftest import Open
from tests.pictures import pdf, png
from tests.scripted_server import ScriptedServer

SLOW = {"text": "Let me think about it.", "wire": {"endless": True}}
DONE = {"text": "Done."}


def calls(*named: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments} for name, arguments in named]}


WRITE = ("write_file", {"path": "a.txt", "content": "new\n"})


async def events_of(conversation: kode.Conversation, text: str) -> list[Event]:
    return [event async for event in conversation.turn(text)]


def results(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, ToolFinished)]


def end_of(events: list[Event]) -> TurnEnded:
    """How the turn ended, which is its last event and comes once."""
    [ended] = [event for event in events if isinstance(event, TurnEnded)]
    assert events[-1] is ended
    return ended


async def test_a_turn_gives_its_events_and_last_how_it_ended(opened: Open) -> None:
    async with opened({"text": "Four, as far as I know."}) as conversation:
        events = await events_of(conversation, "Two and two?")

    assert isinstance(events[0], SessionStarted)
    said = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert (end_of(events).status, end_of(events).result) == ("success", said)


async def test_a_failed_turn_raises_and_its_last_event_tells(opened: Open) -> None:
    refused = {"error": {"status": 400, "text": "no such thing"}}
    async with opened(refused, refused) as conversation:
        with pytest.raises(kode.TurnFailed, match="no such thing") as failed:
            await conversation.ask("Two and two?")
        ended = end_of(await events_of(conversation, "And now?"))

    assert failed.value.status == "error"
    assert "no such thing" in (ended.error or "")


async def test_functions_are_tools_and_run_without_a_question(
    server: ScriptedServer, opened: Open
) -> None:
    threads = []

    def price_of(article: str, count: int = 1) -> dict[str, float]:
        """The price of an article, in euros."""
        threads.append(threading.current_thread())
        return {"euros": 2.5 * count}

    async def in_stock(article: str) -> str:
        """Whether there is any of an article."""
        raise LookupError(f"nothing called {article}")

    asked = calls(
        ("price_of", {"article": "pen", "count": 4}),
        ("in_stock", {"article": "pens"}),
        ("price_of", {"count": "many"}),
    )
    async with opened(asked, DONE, tools=[price_of, in_stock]) as conversation:
        first, second, third = results(await events_of(conversation, "What are four pens?"))

    assert '"euros": 10.0' in first
    assert second == "in_stock failed (LookupError: nothing called pens)."
    assert "`article` is required" in third
    assert threads[0] is not threading.main_thread()
    sent = {one["function"]["name"]: one["function"] for one in server.requests[0].json["tools"]}
    assert sent["price_of"]["description"] == "The price of an article, in euros."
    assert sent["price_of"]["parameters"]["required"] == ["article"]


def no_docstring(name: str) -> str:
    return name


def no_type(name) -> str:  # type: ignore[no-untyped-def]
    """Has a parameter of no type."""
    return str(name)


def many(*names: str) -> str:
    """Takes any number."""
    return " ".join(names)


def read_file(path: str) -> str:
    """Has the name of a tool that there is."""
    return path


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (no_docstring, "docstring"),
        (no_type, "needs a type"),
        (many, "no \\*args"),
        (read_file, "2 tools called read_file"),
    ],
)
async def test_a_function_that_cannot_be_a_tool_is_refused(
    opened: Open, function: Any, why: str
) -> None:
    with pytest.raises(kode.KodeError, match=why):
        async with opened(tools=[function]) as conversation:
            await conversation.ask("Hello")


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_gate_is_asked_and_its_words_reach_the_model(
    opened: Open, project: Path, is_async: bool
) -> None:
    asked: list[kode.Question] = []

    def decide(question: kode.Question) -> bool | kode.Answer:
        asked.append(question)
        if question.subject == "a.txt":
            return True
        return kode.Answer(choice="no", message="only a.txt")

    async def decide_later(question: kode.Question) -> bool | kode.Answer:
        await asyncio.sleep(0)
        return decide(question)

    written = calls(WRITE, ("write_file", {"path": "b.txt", "content": "x"}))
    async with opened(written, DONE, gate=decide_later if is_async else decide) as conversation:
        events = await events_of(conversation, "Write")

    assert [question.subject for question in asked] == ["a.txt", "b.txt"]
    assert sorted(path.name for path in project.iterdir()) == ["a.txt"]
    assert 'They say: "only a.txt"' in results(events)[1]


def failing(question: kode.Question) -> bool:
    raise RuntimeError("the database is away")


@pytest.mark.parametrize("gate", [None, failing])
async def test_a_call_to_be_asked_about_needs_an_answering_gate(
    opened: Open, project: Path, gate: Any
) -> None:
    async with opened(calls(WRITE), DONE, gate=gate) as conversation:
        events = await events_of(conversation, "Write")

    ended = end_of(events)
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any("RuntimeError: the database is away" in one for one in notices) == bool(gate)
    assert [denial.subject for denial in ended.denials] == ["a.txt"]
    assert (ended.status, ended.refused) == ("incomplete", ended.denials)
    assert list(project.iterdir()) == []


async def test_a_rule_has_the_gate_asked_about_a_function(opened: Open) -> None:
    def drop_table(name: str) -> str:
        """Drop a table."""
        raise AssertionError("it must not run")

    given = {
        "tools": [drop_table],
        "gate": lambda _: False,
        "settings": {"permissions.ask": ["drop_table"]},
    }
    async with opened(calls(("drop_table", {"name": "users"})), DONE, **given) as conversation:
        ended = end_of(await events_of(conversation, "Drop it"))

    assert [denial.tool for denial in ended.denials] == ["drop_table"]


async def test_undo_takes_back_what_a_turn_changed(opened: Open, project: Path) -> None:
    async with opened(calls(WRITE), DONE, permission_mode="auto-edit") as conversation:
        await conversation.ask("Write")
        assert (project / "a.txt").exists()
        assert "a.txt" in await conversation.undo()
        assert "undo" in await conversation.undo()

    assert not (project / "a.txt").exists()


async def test_leaving_the_iteration_interrupts_the_turn(
    server: ScriptedServer, opened: Open
) -> None:
    async with opened(SLOW, {"text": "Here I am."}) as conversation:
        async for event in conversation.turn("Think"):
            if isinstance(event, TextDelta):
                break
        assert await conversation.ask("Are you there?") == "Here I am."

    assert server.disconnects == 1


async def test_a_cancelled_ask_interrupts_the_turn_and_is_cancelled(opened: Open) -> None:
    seen: list[Event] = []
    begun = asyncio.Event()

    def watch(event: Event) -> None:
        seen.append(event)
        if isinstance(event, TextDelta):
            begun.set()

    async with opened(SLOW, on_event=watch) as conversation:
        asking = asyncio.create_task(conversation.ask("Think"))
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    assert end_of(seen).status == "interrupted"


async def test_interrupt_ends_the_turn_with_what_there_is(opened: Open) -> None:
    async with opened(SLOW) as conversation:
        events = []
        async for event in conversation.turn("Think"):
            events.append(event)
            if isinstance(event, TextDelta):
                conversation.interrupt()

    assert end_of(events).status == "interrupted"
    assert end_of(events).result.startswith("Let me think")


async def test_steering_reaches_the_model_before_its_next_step(
    server: ScriptedServer, opened: Open
) -> None:
    async def wait_a_while() -> str:
        """Wait."""
        conversation.steer("in French, please")
        return "waited"

    async with opened(calls(("wait_a_while", {})), DONE, tools=[wait_a_while]) as conversation:
        events = await events_of(conversation, "Greet me")

    assert [event.text for event in events if isinstance(event, Steered)] == ["in French, please"]
    assert "in French, please" in server.requests[1].body.decode()


async def test_turns_of_one_conversation_run_one_after_the_other(opened: Open) -> None:
    async with opened({"text": "one", "delay_s": 0.05}, {"text": "two"}) as conversation:
        assert await asyncio.gather(conversation.ask("1"), conversation.ask("2")) == ["one", "two"]
    with pytest.raises(kode.KodeError, match="closed"):
        await conversation.ask("3")


async def test_several_conversations_in_one_process_do_not_disturb_each_other(
    server: ScriptedServer, tmp_path: Path, opened: Open
) -> None:
    def play(request: dict[str, Any]) -> dict[str, Any]:
        name = request["messages"][1]["content"].rpartition("\n")[2]
        if request["messages"][-1]["role"] == "user":
            return calls(("write_file", {"path": "name.txt", "content": name}))
        return {"text": f"I am {name}."}

    server.play(play)

    async def one(name: str) -> str:
        (tmp_path / name).mkdir()
        async with opened(folder=tmp_path / name, permission_mode="auto-edit") as conversation:
            return await conversation.ask(name)

    names = [f"agent{number}" for number in range(8)]
    assert await asyncio.gather(*map(one, names)) == [f"I am {name}." for name in names]
    assert [(tmp_path / name / "name.txt").read_text() for name in names] == names


async def test_the_process_is_left_as_it_was(
    opened: Open, capfd: pytest.CaptureFixture[str]
) -> None:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = (os.getcwd(), dict(os.environ))
    async with opened(calls(WRITE), DONE, permission_mode="full") as conversation:
        await conversation.ask("Write")
        assert {number: signal.getsignal(number) for number in handlers} == handlers

    assert (os.getcwd(), dict(os.environ)) == before
    assert capfd.readouterr() == ("", "")


async def test_warnings_of_the_opening_are_events(opened: Open, project: Path) -> None:
    (project / "kode.json").write_text('{"base_url": "http://evil.example/v1"}')
    async with opened(DONE, DONE) as conversation:
        await conversation.ask("1")
        events = await events_of(conversation, "2")

    assert any(isinstance(event, Notice) and "base_url" in event.text for event in events)


async def test_a_watcher_that_fails_ends_no_turn(opened: Open) -> None:
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))

    def watch(event: Event) -> None:
        if isinstance(event, TurnEnded):
            raise RuntimeError("no room on the screen")

    async with opened({"text": "Four."}, on_event=watch) as conversation:
        assert await conversation.ask("Two and two?") == "Four."
    assert [str(one["exception"]) for one in reported] == ["no room on the screen"]


async def test_a_session_is_resumed_by_its_id(server: ScriptedServer, opened: Open) -> None:
    async with opened({"text": "Hello Ann."}, {"text": "Ann."}) as conversation:
        await conversation.ask("I am Ann")
    async with opened(resume=conversation.session_id[:18]) as again:
        assert again.session_id == conversation.session_id
        assert await again.ask("Who am I?") == "Ann."

    assert "I am Ann" in server.requests[1].body.decode()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"permission_mode": "yolo"}, r"kode\.open: `permissions.mode`"),
        ({"folder": "nowhere"}, "is no folder"),
        ({"resume": "never"}, "no session"),
        ({"memory": "elephant"}, r"memory\.system"),
    ],
)
async def test_a_wrong_value_is_said_at_once(
    opened: Open, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(kode.KodeError, match=why):
        async with opened(**options):
            pass


async def test_settings_hold_where_no_argument_names_them(
    server: ScriptedServer, opened: Open
) -> None:
    async with opened(DONE, settings={"model": "another", "effort": "high"}) as conversation:
        await conversation.ask("1")

    sent = server.requests[0].json
    assert (sent["model"], sent["reasoning_effort"]) == ("scripted-model", "high")


class Bug(pydantic.BaseModel):
    file: str
    line: int


async def test_ask_gives_a_value_of_a_type(opened: Open) -> None:
    replies = ('{"file": "a.py", "line": 3}', "```json\n[1, 2]\n```", *["None."] * 3)
    async with opened(*({"text": text} for text in replies)) as conversation:
        assert await conversation.ask("A bug?", schema=Bug) == Bug(file="a.py", line=3)
        assert await conversation.ask("Numbers?", schema=list[int]) == [1, 2]
        with pytest.raises(kode.TurnFailed, match="asked 3 times"):
            await conversation.ask("A bug?", schema={"type": "object"})


async def test_files_go_with_a_text(server: ScriptedServer, opened: Open, project: Path) -> None:
    (project / "shot.png").write_bytes(png(7, 5))
    (project / "paper.pdf").write_bytes(pdf("a page"))
    (project / "a.txt").write_text("the text of a")
    async with opened({"text": "Seen."}, {"text": "Again."}, model="gpt-4.1") as conversation:
        files = ["shot.png", "paper.pdf", project / "a.txt"]
        assert await conversation.ask("Look", files=files) == "Seen."
        await conversation.ask("And now?")

    first, second = (json.dumps(request.json["messages"][-1]) for request in server.requests)
    assert base64.b64encode(png(7, 5)).decode() in first
    assert "paper.pdf" in first  # this server takes its name alone
    assert "the text of a" in first
    assert "the text of a" not in second


@pytest.mark.parametrize("name", ["missing.txt", "program.bin"])
async def test_a_file_that_cannot_be_sent_stops_the_turn(
    server: ScriptedServer, opened: Open, project: Path, name: str
) -> None:
    (project / "program.bin").write_bytes(b"\0\1\2")
    (project / "a.txt").write_text("the text of a")
    async with opened(DONE) as conversation:
        conversation.steer("in French, please")
        with pytest.raises(kode.KodeError, match=name):
            await conversation.ask("Look", files=["a.txt", name])
        await conversation.ask("Without")

    sent = json.dumps(server.requests[0].json)
    assert "the text of a" not in sent
    assert "in French, please" in sent


async def test_an_awaited_conversation_is_open_until_it_is_closed(opened: Open) -> None:
    conversation = await opened({"text": "Yes."})
    assert await conversation.ask("Are you there?") == "Yes."
    await conversation.close()
    await conversation.close()
    with pytest.raises(kode.errors.UserError, match="is closed"):
        await conversation.ask("And now?")


def test_a_blocking_conversation_needs_no_event_loop(opened: Open, project: Path) -> None:
    write = calls(("write_file", {"path": "a.txt", "content": "new\n"}))
    opening = opened(write, {"text": "Done."}, permission_mode="auto-edit")
    with opening.blocking() as agent:
        assert agent.ask("Write a.txt") == "Done."
        assert (project / "a.txt").read_text() == "new\n"
        assert "a.txt" in agent.undo()


def test_an_interrupted_cell_interrupts_its_turn_alone(opened: Open) -> None:
    pieces: list[Event] = []

    def interrupt(event: Event) -> None:
        if isinstance(event, TextDelta):
            pieces.append(event)
            if len(pieces) == 1:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with opened(SLOW, {"text": "Here."}, on_event=interrupt).blocking() as agent:
        with pytest.raises(KeyboardInterrupt):
            agent.ask("Think")
        assert agent.ask("Are you there?") == "Here."


def test_an_interrupted_opening_closes_what_it_had_opened(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    closings: list[bool] = []
    is_closing, close = threading.Event(), kode.api.Conversation._close

    async def note_close(self: kode.api.Conversation, *, interrupted: bool) -> None:
        is_closing.set()
        await close(self, interrupted=interrupted)
        closings.append(interrupted)

    def interrupt(provider: object) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        is_closing.wait()

    monkeypatch.setattr(kode.api.Conversation, "_close", note_close)
    monkeypatch.setattr(kode.api, "warm_up", interrupt)
    with pytest.raises(KeyboardInterrupt):
        opened({"text": "Here."}).blocking()
    assert closings == [True]
