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
from tests.pictures import pdf, png
from tests.scripted_server import ScriptedServer

SLOW = {"text": "Let me think about it.", "wire": {"endless": True}}
WRITE = {"name": "write_file", "arguments": {"path": "a.txt", "content": "new\n"}}


async def events_of(conversation: kode.Conversation, text: str) -> list[Event]:
    return [event async for event in conversation.turn(text)]


def results(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, ToolFinished)]


async def test_a_turn_gives_its_events_and_last_how_it_ended(
    server: ScriptedServer, opened: Any
) -> None:
    server.play([{"text": "Four, as far as I know."}])
    async with opened() as conversation:
        events = await events_of(conversation, "Two and two?")

    assert isinstance(events[0], SessionStarted)
    said = "".join(event.text for event in events if isinstance(event, TextDelta))
    [ended] = [event for event in events if isinstance(event, TurnEnded)]
    assert events[-1] is ended
    assert (ended.status, ended.result) == ("success", said)


async def test_ask_gives_the_text(server: ScriptedServer, opened: Any) -> None:
    server.play([{"text": "Four."}])
    async with opened() as conversation:
        assert await conversation.ask("Two and two?") == "Four."


async def test_a_failed_turn_raises_and_its_last_event_tells(
    server: ScriptedServer, opened: Any
) -> None:
    server.play([{"error": {"status": 400, "text": "no such thing"}}] * 2)
    async with opened() as conversation:
        with pytest.raises(kode.TurnFailed, match="no such thing") as failed:
            await conversation.ask("Two and two?")
        last = (await events_of(conversation, "And now?"))[-1]

    assert failed.value.status == "error"
    assert isinstance(last, TurnEnded)
    assert last.error is not None
    assert "no such thing" in last.error


async def test_functions_are_tools_and_run_without_a_question(
    server: ScriptedServer, opened: Any
) -> None:
    threads = []

    def price_of(article: str, count: int = 1) -> dict[str, float]:
        """The price of an article, in euros."""
        threads.append(threading.current_thread())
        return {"euros": 2.5 * count}

    async def in_stock(article: str) -> str:
        """Whether there is any of an article."""
        return f"plenty of {article}"

    calls = [
        {"name": "price_of", "arguments": {"article": "pen", "count": 4}},
        {"name": "in_stock", "arguments": {"article": "pens"}},
        {"name": "price_of", "arguments": {"count": "many"}},
    ]
    server.play([{"calls": calls}, {"text": "Ten euros."}])
    async with opened(tools=[price_of, in_stock]) as conversation:
        events = await events_of(conversation, "What are four pens?")

    first, second, third = results(events)
    assert '"euros": 10.0' in first
    assert second == "plenty of pens"
    assert "`article` is required" in third
    assert threads[0] is not threading.main_thread()
    sent = {one["function"]["name"]: one["function"] for one in server.requests[0].json["tools"]}
    assert sent["price_of"]["description"] == "The price of an article, in euros."
    assert sent["price_of"]["parameters"]["required"] == ["article"]


async def test_an_exception_of_a_function_fails_its_call(
    server: ScriptedServer, opened: Any
) -> None:
    def broken(what: str) -> str:
        """Breaks."""
        raise LookupError(f"nothing called {what}")

    call = {"name": "broken", "arguments": {"what": "pen"}}
    server.play([{"calls": [call]}, {"text": "It broke."}])
    async with opened(tools=[broken]) as conversation:
        [result] = results(await events_of(conversation, "Try it"))

    assert result == "broken failed (LookupError: nothing called pen)."


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
    [(no_docstring, "docstring"), (no_type, "needs a type"), (many, "no \\*args")],
)
async def test_a_function_that_cannot_be_described_is_refused_at_once(
    opened: Any, function: Any, why: str
) -> None:
    with pytest.raises(kode.KodeError, match=why):
        async with opened(tools=[function]):
            pass


async def test_two_tools_of_one_name_are_refused(opened: Any) -> None:
    async with opened(tools=[read_file]) as conversation:
        with pytest.raises(kode.KodeError, match="2 tools called read_file"):
            await conversation.ask("Hello")


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_gate_is_asked_and_its_words_reach_the_model(
    server: ScriptedServer, opened: Any, project: Path, is_async: bool
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

    other = {"name": "write_file", "arguments": {"path": "b.txt", "content": "x"}}
    server.play([{"calls": [WRITE, other]}, {"text": "Done."}])
    async with opened(gate=decide_later if is_async else decide) as conversation:
        events = await events_of(conversation, "Write")

    assert [question.subject for question in asked] == ["a.txt", "b.txt"]
    assert sorted(path.name for path in project.iterdir()) == ["a.txt"]
    assert 'They say: "only a.txt"' in results(events)[1]


async def test_a_call_to_be_asked_about_needs_a_gate(
    server: ScriptedServer, opened: Any, project: Path
) -> None:
    server.play([{"calls": [WRITE]}, {"text": "I could not."}])
    async with opened() as conversation:
        last = (await events_of(conversation, "Write"))[-1]

    assert isinstance(last, TurnEnded)
    assert [denial.subject for denial in last.denials] == ["a.txt"]
    assert (last.status, last.refused) == ("incomplete", last.denials)
    assert list(project.iterdir()) == []


async def test_a_failing_gate_refuses_with_a_notice(
    server: ScriptedServer, opened: Any, project: Path
) -> None:
    def decide(question: kode.Question) -> bool:
        raise RuntimeError("the database is away")

    server.play([{"calls": [WRITE]}, {"text": "I could not."}])
    async with opened(gate=decide) as conversation:
        events = await events_of(conversation, "Write")

    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any("RuntimeError: the database is away" in one for one in notices)
    assert list(project.iterdir()) == []


async def test_a_rule_has_the_gate_asked_about_a_function(
    server: ScriptedServer, opened: Any
) -> None:
    def drop_table(name: str) -> str:
        """Drop a table."""
        raise AssertionError("it must not run")

    call = {"name": "drop_table", "arguments": {"name": "users"}}
    server.play([{"calls": [call]}, {"text": "Not done."}])
    rules = {"permissions.ask": ["drop_table"]}
    async with opened(tools=[drop_table], gate=lambda _: False, settings=rules) as conversation:
        last = (await events_of(conversation, "Drop it"))[-1]

    assert isinstance(last, TurnEnded)
    assert [denial.tool for denial in last.denials] == ["drop_table"]


async def test_undo_takes_back_what_a_turn_changed(
    server: ScriptedServer, opened: Any, project: Path
) -> None:
    server.play([{"calls": [WRITE]}, {"text": "Done."}])
    async with opened(permission_mode="auto-edit") as conversation:
        await conversation.ask("Write")
        assert (project / "a.txt").exists()
        assert "a.txt" in await conversation.undo()
        assert "undo" in await conversation.undo()

    assert not (project / "a.txt").exists()


async def test_leaving_the_iteration_interrupts_the_turn(
    server: ScriptedServer, opened: Any
) -> None:
    server.play([SLOW, {"text": "Here I am."}])
    async with opened() as conversation:
        async for event in conversation.turn("Think"):
            if isinstance(event, TextDelta):
                break
        assert await conversation.ask("Are you there?") == "Here I am."

    assert server.disconnects == 1


async def test_a_cancelled_ask_interrupts_the_turn_and_is_cancelled(
    server: ScriptedServer, opened: Any
) -> None:
    server.play([SLOW])
    seen: list[Event] = []
    async with opened(on_event=seen.append) as conversation:
        asking = asyncio.create_task(conversation.ask("Think"))
        while not any(isinstance(event, TextDelta) for event in seen):
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    ends = [event.status for event in seen if isinstance(event, TurnEnded)]
    assert ends == ["interrupted"]


async def test_interrupt_ends_the_turn_with_what_there_is(
    server: ScriptedServer, opened: Any
) -> None:
    server.play([SLOW])
    async with opened() as conversation:
        events = []
        async for event in conversation.turn("Think"):
            events.append(event)
            if isinstance(event, TextDelta):
                with pytest.raises(kode.KodeError, match="A turn is running"):
                    await conversation.undo()
                conversation.interrupt()

    assert isinstance(events[-1], TurnEnded)
    assert events[-1].status == "interrupted"
    assert events[-1].result.startswith("Let me think")


async def test_steering_reaches_the_model_before_its_next_step(
    server: ScriptedServer, opened: Any
) -> None:
    async def wait_a_while() -> str:
        """Wait."""
        conversation.steer("in French, please")
        return "waited"

    server.play([{"calls": [{"name": "wait_a_while", "arguments": {}}]}, {"text": "Bonjour."}])
    async with opened(tools=[wait_a_while]) as conversation:
        events = await events_of(conversation, "Greet me")

    assert [event.text for event in events if isinstance(event, Steered)] == ["in French, please"]
    assert "in French, please" in server.requests[1].body.decode()


async def test_turns_of_one_conversation_run_one_after_the_other(
    server: ScriptedServer, opened: Any
) -> None:
    server.play([{"text": "one", "delay_s": 0.05}, {"text": "two"}])
    async with opened() as conversation:
        assert await asyncio.gather(conversation.ask("1"), conversation.ask("2")) == ["one", "two"]
    with pytest.raises(kode.KodeError, match="closed"):
        await conversation.ask("3")


async def test_several_conversations_in_one_process_do_not_disturb_each_other(
    server: ScriptedServer, tmp_path: Path, opened: Any
) -> None:
    def play(request: dict[str, Any]) -> dict[str, Any]:
        name = request["messages"][1]["content"].rpartition("\n")[2]
        if request["messages"][-1]["role"] == "user":
            written = {"path": "name.txt", "content": name}
            return {"calls": [{"name": "write_file", "arguments": written}]}
        return {"text": f"I am {name}."}

    server.play(play)

    async def one(name: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        options = {
            "base_url": server.openai_url,
            "model": "gpt-4.1",
            "memory": None,
            "permission_mode": "auto-edit",
        }
        async with kode.open(folder, **options) as conversation:
            return await conversation.ask(name)

    names = [f"agent{number}" for number in range(8)]
    assert await asyncio.gather(*map(one, names)) == [f"I am {name}." for name in names]
    assert [(tmp_path / name / "name.txt").read_text() for name in names] == names


async def test_the_process_is_left_as_it_was(
    server: ScriptedServer, opened: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = (os.getcwd(), dict(os.environ))
    server.play([{"calls": [WRITE]}, {"text": "Done."}])
    async with opened(permission_mode="full") as conversation:
        await conversation.ask("Write")
        assert {number: signal.getsignal(number) for number in handlers} == handlers

    assert (os.getcwd(), dict(os.environ)) == before
    assert capfd.readouterr() == ("", "")


async def test_warnings_are_events_even_those_of_the_opening(
    server: ScriptedServer, opened: Any, project: Path
) -> None:
    (project / "kode.json").write_text('{"base_url": "http://evil.example/v1"}')
    server.play([{"text": "One."}, {"text": "Two."}])
    async with opened() as conversation:
        await conversation.ask("1")
        events = await events_of(conversation, "2")

    assert any(isinstance(event, Notice) and "base_url" in event.text for event in events)


async def test_a_watcher_that_fails_ends_no_turn(server: ScriptedServer, opened: Any) -> None:
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))

    def watch(event: Event) -> None:
        if isinstance(event, TurnEnded):
            raise RuntimeError("no room on the screen")

    server.play([{"text": "Four."}])
    async with opened(on_event=watch) as conversation:
        assert await conversation.ask("Two and two?") == "Four."
    assert [str(one["exception"]) for one in reported] == ["no room on the screen"]


async def test_a_session_is_resumed_by_its_id(server: ScriptedServer, opened: Any) -> None:
    server.play([{"text": "Hello Ann."}, {"text": "Ann."}])
    async with opened() as conversation:
        await conversation.ask("I am Ann")
    async with opened(resume=conversation.session_id[:18]) as again:
        assert again.session_id == conversation.session_id
        assert await again.ask("Who am I?") == "Ann."
    with pytest.raises(kode.KodeError, match="no session"):
        async with opened(resume="never"):
            pass

    assert "I am Ann" in server.requests[1].body.decode()


async def test_a_wrong_value_is_said_at_once(opened: Any, tmp_path: Path) -> None:
    with pytest.raises(kode.KodeError, match=r"kode\.open: `permissions.mode`"):
        async with opened(permission_mode="yolo"):
            pass
    with pytest.raises(kode.KodeError, match="does not exist"):
        async with kode.open(tmp_path / "nowhere"):
            pass


async def test_settings_hold_where_no_argument_names_them(
    server: ScriptedServer, project: Path
) -> None:
    server.play([{"text": "One."}])
    given = {"base_url": server.openai_url, "model": "scripted-model", "memory.enabled": False}
    async with kode.open(project, model="other-model", settings=given) as conversation:
        assert await conversation.ask("1") == "One."

    assert server.requests[0].json["model"] == "other-model"


class Bug(pydantic.BaseModel):
    file: str
    line: int


async def test_ask_gives_a_value_of_a_type(server: ScriptedServer, opened: Any) -> None:
    server.play([{"text": '{"file": "a.py", "line": 3}'}, {"text": "```json\n[1, 2]\n```"}])
    async with opened() as conversation:
        assert await conversation.ask("A bug?", schema=Bug) == Bug(file="a.py", line=3)
        assert await conversation.ask("Numbers?", schema=list[int]) == [1, 2]


async def test_an_answer_that_never_fits_is_a_failed_turn(
    server: ScriptedServer, opened: Any
) -> None:
    server.play([{"text": "There are none."}] * 3)
    async with opened() as conversation:
        with pytest.raises(
            kode.TurnFailed, match="not fit the schema, asked 3 times: it is not JSON"
        ):
            await conversation.ask("A bug?", schema={"type": "object"})


async def test_files_go_with_a_text(server: ScriptedServer, opened: Any, project: Path) -> None:
    (project / "shot.png").write_bytes(png(7, 5))
    (project / "paper.pdf").write_bytes(pdf("a page"))
    (project / "a.txt").write_text("the text of a")
    server.play([{"text": "Seen."}, {"text": "Again."}])
    async with opened(model="gpt-4.1") as conversation:
        files = ["shot.png", "paper.pdf", project / "a.txt"]
        assert await conversation.ask("Look", files=files) == "Seen."
        assert await conversation.ask("And now?") == "Again."

    sent = [json.dumps(request.json["messages"][-1]) for request in server.requests]
    assert base64.b64encode(png(7, 5)).decode() in json.dumps(server.requests[0].json)
    assert "paper.pdf" in json.dumps(server.requests[0].json)  # this server takes its name alone
    assert "the text of a" in json.dumps(server.requests[0].json)
    assert "the text of a" not in sent[1]


@pytest.mark.parametrize("name", ["missing.txt", "program.bin"])
async def test_a_file_that_cannot_be_sent_stops_the_turn(
    server: ScriptedServer, opened: Any, project: Path, name: str
) -> None:
    (project / "program.bin").write_bytes(b"\0\1\2")
    (project / "a.txt").write_text("the text of a")
    server.play([{"text": "Alone."}])
    async with opened() as conversation:
        with pytest.raises(kode.KodeError, match=name):
            await conversation.ask("Look", files=["a.txt", name])
        assert await conversation.ask("Without") == "Alone."

    assert "the text of a" not in json.dumps(server.requests[0].json)
