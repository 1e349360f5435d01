"""A client gives tasks, follows them, stops them; what it gets at each moment."""

import asyncio

from kode import paths
from kode.plugins.serve import sessions
from kode.plugins.serve.sessions import ServedSessions
from kode.session import log
from kode.session.index import list_sessions
from tests.plugins.serve.conftest import DONE, MADE, WRITING


async def test_a_finished_task_leaves_its_session_on_disk(serve, project):
    async with serve(*MADE) as call:
        state = await call.start("make it", mode="auto-edit")

    assert state["status"] == "done"
    assert state["result"]["status"] == "success"
    assert state["result"]["result"] == "made it"
    assert state["result"]["files_changed"] == ["a.txt"]
    assert any("a.txt" in line for line in state["progress"])
    assert (project / "a.txt").read_text() == "new\n"
    (summary,) = list_sessions(paths.kode_home(), cwd=project)
    assert (summary.id, summary.task) == (state["session"], "make it")


async def test_the_next_wait_goes_on_from_the_cursor(serve):
    async with serve(WRITING, {"text": "slow", "delay_s": 1.0}) as call:
        state = await call.start(mode="auto-edit", wait_s=0)
        assert (state["status"], "result" in state) == ("working", False)
        seen = state["progress"]
        while state["status"] == "working":
            since = {"session": state["session"], "cursor": state["cursor"]}
            state = await call("kode_wait", **since, wait_s=0.2)
            seen = seen + state["progress"]

    assert state["result"]["result"] == "slow"
    assert len([line for line in seen if "a.txt" in line]) == 1


async def test_a_reply_steers_a_running_turn_or_starts_one(serve):
    script = ({**WRITING, "delay_s": 1.0}, {"text": "with tabs"}, {"text": "second"})
    async with serve(*script) as call:
        session = (await call.start(mode="auto-edit", wait_s=0))["session"]
        steered = await call("kode_reply", session=session, prompt="use tabs")
        again = await call("kode_reply", session=session[:-2], prompt="now the second")
        prompts = call.conversation(session).prompts()

    assert steered["result"]["result"] == "with tabs"
    assert any("use tabs" in line for line in steered["progress"])
    assert again["result"]["result"] == "second"
    assert prompts == ["x", "now the second"]


async def test_stop_interrupts_and_closes_and_a_reply_opens_it_again(serve):
    script = ({"match": "^and now", "text": "back again"}, {"text": "never", "delay_s": 60})
    async with serve(*script) as call:
        session = (await call.start(wait_s=0))["session"]
        assert "kode_stop" in await call.fault("kode_undo", session=session)
        stopped = await call("kode_stop", session=session)
        assert stopped["status"] == "closed"
        assert "kode_reply" in await call.fault("kode_wait", session=session)
        again = await call("kode_reply", session=session, prompt="and now?")

    assert (again["session"], again["result"]["result"]) == (session, "back again")


async def test_several_sessions_work_at_once(serve):
    async with serve({"text": "for all", "delay_s": 0.3}) as call:
        states = await asyncio.gather(*(call.start(f"task {n}") for n in range(4)))
        listed = (await call("kode_sessions"))["sessions"]

    assert {state["result"]["result"] for state in states} == {"for all"}
    assert {row["session"] for row in listed} == {state["session"] for state in states}
    assert {row["task"] for row in listed} == {f"task {n}" for n in range(4)}


async def test_diff_and_undo_of_what_a_session_changed(serve, project):
    async with serve(*MADE) as call:
        session = (await call.start(mode="auto-edit"))["session"]
        await call("kode_stop", session=session)
        diff = await call("kode_diff", session=session)
        undone = await call("kode_undo", session=session)
        assert not (project / "a.txt").exists()
        await call("kode_undo", session=session, redo=True)

    assert diff["files"] == [{"path": "a.txt", "added": 1, "removed": 0}]
    assert "+new" in diff["diff"]
    assert "a.txt" in undone["done"]
    assert (project / "a.txt").read_text() == "new\n"


async def test_a_turn_that_fails_says_why(serve):
    async with serve({"error": {"status": 401}}) as call:
        state = await call.start()
        assert "prompt" in await call.refused(" ")

    assert state["result"]["status"] == "error"
    assert state["result"]["error"]


async def test_a_session_that_is_open_elsewhere_is_not_taken(serve):
    async with serve(DONE) as call:
        session = (await call.start())["session"]
        await call("kode_stop", session=session)
        elsewhere, _ = log.load(paths.kode_home(), session)
        fault = await call.fault("kode_reply", session=session, prompt="x")
        elsewhere.close()
        unknown = await call.fault("kode_reply", session="20200101-000000-aaaaaa", prompt="x")

    assert "in another kode" in fault
    assert "no session" in unknown


async def test_an_internal_fault_names_its_report_and_ends_nothing(serve, monkeypatch):
    monkeypatch.setattr(ServedSessions, "list_rows", lambda *_: 1 / 0)
    async with serve(DONE) as call:
        fault = await call.fault("kode_sessions")
        assert (await call.start())["status"] == "done"

    assert "ZeroDivisionError" in fault
    assert str(paths.kode_home() / "logs") in fault


async def test_one_session_too_many_is_refused(serve, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_OPEN", 1)
    async with serve(DONE) as call:
        first = await call.start("first")
        assert "kode_stop" in await call.refused("second")
        await call("kode_stop", session=first["session"])
        assert (await call.start("second"))["status"] == "done"
