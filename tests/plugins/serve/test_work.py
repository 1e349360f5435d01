"""A client gives tasks, follows them, stops them; what it gets at each moment."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kode import paths
from kode.plugins.serve import sessions
from kode.plugins.serve.sessions import ServedSessions
from kode.session import log
from kode.session.index import list_sessions
from tests.plugins.serve.conftest import Connect

WRITING = {"calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": "new\n"}}]}


async def test_a_finished_task_leaves_its_session_on_disk(
    connect: Connect, play: Any, project: Path
) -> None:
    play(WRITING, {"text": "made it"})
    async with connect() as call:
        state = await call("kode_start", prompt="make it", cwd=str(project), mode="auto-edit")

    assert state["status"] == "done"
    assert state["result"]["status"] == "success"
    assert state["result"]["result"] == "made it"
    assert state["result"]["files_changed"] == ["a.txt"]
    assert any("a.txt" in line for line in state["progress"])
    assert (project / "a.txt").read_text() == "new\n"
    (summary,) = list_sessions(paths.home(), cwd=project)
    assert (summary.id, summary.task) == (state["session"], "make it")


async def test_the_next_wait_goes_on_from_the_cursor(
    connect: Connect, play: Any, project: Path
) -> None:
    play(WRITING, {"text": "slow", "delay_s": 1.0})
    async with connect() as call:
        first = await call("kode_start", prompt="x", cwd=str(project), mode="auto-edit", wait_s=0)
        assert first["status"] == "working"
        assert "result" not in first
        seen = first["progress"]
        state = first
        while state["status"] == "working":
            state = await call(
                "kode_wait", session=first["session"], cursor=state["cursor"], wait_s=0.2
            )
            seen = seen + state["progress"]

    assert state["result"]["result"] == "slow"
    assert len([line for line in seen if "a.txt" in line]) == 1


async def test_a_reply_steers_a_running_turn_or_starts_one(
    connect: Connect, play: Any, project: Path
) -> None:
    play({**WRITING, "delay_s": 1.0}, {"text": "with tabs"}, {"text": "second"})
    async with connect() as call:
        first = await call("kode_start", prompt="x", cwd=str(project), mode="auto-edit", wait_s=0)
        session = first["session"]
        steered = await call("kode_reply", session=session, prompt="use tabs")
        again = await call("kode_reply", session=session[:-2], prompt="now the second")
        conversation = call.conversation(session)
        prompts = conversation.past.prompts()

    assert steered["result"]["result"] == "with tabs"
    assert any("use tabs" in line for line in steered["progress"])
    assert again["result"]["result"] == "second"
    assert prompts == ["x", "now the second"]


async def test_stop_interrupts_and_closes_and_a_reply_opens_it_again(
    connect: Connect, play: Any, project: Path
) -> None:
    play({"text": "never", "delay_s": 60}, {"text": "never"})
    async with connect() as call:
        state = await call("kode_start", prompt="x", cwd=str(project), wait_s=0)
        assert "kode_stop" in await call.fault("kode_undo", session=state["session"])
        stopped = await call("kode_stop", session=state["session"])
        assert stopped["status"] == "closed"
        assert "kode_reply" in await call.fault("kode_wait", session=state["session"])
        play({"text": "back again"})
        again = await call("kode_reply", session=state["session"], prompt="and now?")

    assert again["session"] == state["session"]
    assert again["result"]["result"] == "back again"


async def test_several_sessions_work_at_once(connect: Connect, play: Any, project: Path) -> None:
    play({"text": "one of them", "delay_s": 0.3})
    async with connect() as call:
        states = await asyncio.gather(
            *(call("kode_start", prompt=f"task {n}", cwd=str(project)) for n in range(4))
        )
        listed = (await call("kode_sessions"))["sessions"]

    assert {state["result"]["result"] for state in states} == {"one of them"}
    assert {row["session"] for row in listed} == {state["session"] for state in states}
    assert {row["task"] for row in listed} == {f"task {n}" for n in range(4)}


async def test_diff_and_undo_of_what_a_session_changed(
    connect: Connect, play: Any, project: Path
) -> None:
    play(WRITING, {"text": "made it"})
    async with connect() as call:
        state = await call("kode_start", prompt="x", cwd=str(project), mode="auto-edit")
        session = state["session"]
        await call("kode_stop", session=session)
        diff = await call("kode_diff", session=session)
        undone = await call("kode_undo", session=session)
        assert not (project / "a.txt").exists()
        await call("kode_undo", session=session, redo=True)

    assert diff["files"] == [{"path": "a.txt", "added": 1, "removed": 0}]
    assert "+new" in diff["diff"]
    assert "a.txt" in undone["done"]
    assert (project / "a.txt").read_text() == "new\n"


async def test_a_turn_that_fails_says_why(connect: Connect, play: Any, project: Path) -> None:
    play({"error": {"status": "auth"}})
    async with connect() as call:
        state = await call("kode_start", prompt="x", cwd=str(project))
        empty = await call.fault("kode_start", prompt=" ", cwd=str(project))

    assert state["result"]["status"] == "error"
    assert state["result"]["error"]
    assert "prompt" in empty


async def test_a_session_that_is_open_elsewhere_is_not_taken(
    connect: Connect, play: Any, project: Path
) -> None:
    play({"text": "done"})
    async with connect() as call:
        state = await call("kode_start", prompt="x", cwd=str(project))
        await call("kode_stop", session=state["session"])
        elsewhere, _ = log.load(paths.home(), state["session"])
        fault = await call.fault("kode_reply", session=state["session"], prompt="x")
        elsewhere.close()
        unknown = await call.fault("kode_reply", session="20200101-000000-aaaaaa", prompt="x")

    assert "open in another kode" in fault
    assert "no session" in unknown


async def test_an_internal_fault_names_its_report_and_ends_nothing(
    connect: Connect, play: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play({"text": "done"})

    def broken(self: ServedSessions, limit: int) -> None:
        raise ZeroDivisionError("of the test")

    monkeypatch.setattr(ServedSessions, "listed", broken)
    async with connect() as call:
        fault = await call.fault("kode_sessions")
        state = await call("kode_start", prompt="x", cwd=str(project))

    assert "ZeroDivisionError" in fault
    assert str(paths.home() / "logs") in fault
    assert state["status"] == "done"


async def test_one_session_too_many_is_refused(
    connect: Connect, play: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_OPEN", 1)
    play({"text": "done"})
    async with connect() as call:
        first = await call("kode_start", prompt="first", cwd=str(project))
        assert "kode_stop" in await call.fault("kode_start", prompt="second", cwd=str(project))
        await call("kode_stop", session=first["session"])
        second = await call("kode_start", prompt="second", cwd=str(project))

    assert second["status"] == "done"
