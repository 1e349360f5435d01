"""Permission questions: a form for the client's person where it can show one, else a state."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult

from kode import paths
from kode.permissions import approvals
from tests.plugins.serve.conftest import Connect

WRITING = {"calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": "new\n"}}]}


def person(*filled: ElicitResult, seen: list[Any]) -> Any:
    """Who fills in one form after the other."""
    rest = list(filled)

    async def elicit(context: Any, form: Any) -> ElicitResult:
        seen.append(form)
        return rest.pop(0)

    return elicit


async def test_a_form_shows_the_whole_question_and_takes_the_answer(
    connect: Connect, play: Any, project: Path
) -> None:
    play(WRITING, {"text": "made it"})
    seen: list[Any] = []
    yes = ElicitResult(action="accept", content={"choice": "once"})
    async with connect(person(yes, seen=seen)) as call:
        state = await call("kode_start", prompt="x", cwd=str(project))

    assert state["result"]["files_changed"] == ["a.txt"]
    (form,) = seen
    assert "+new" in form.message
    assert "asks before every edit" in form.message
    assert form.requested_schema["properties"]["choice"]["enum"] == [
        "once", "session", "no",
    ]  # fmt: skip
    assert (project / "a.txt").read_text() == "new\n"


async def test_an_answer_for_the_session_holds_for_its_later_calls(
    connect: Connect, play: Any, project: Path
) -> None:
    second = {"calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": "b"}}]}
    play(WRITING, second, {"text": "wrote it twice"})
    seen: list[Any] = []
    yes = ElicitResult(action="accept", content={"choice": "session"})
    async with connect(person(yes, seen=seen)) as call:
        state = await call("kode_start", prompt="x", cwd=str(project))

    assert state["status"] == "done"
    assert (project / "a.txt").read_text() == "b"
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("filled", "reason"),
    [
        (ElicitResult(action="accept", content={"choice": "no", "message": "use b"}), "use b"),
        (ElicitResult(action="decline"), ""),
    ],
)
async def test_a_no_goes_to_the_model_with_its_words(
    connect: Connect, play: Any, project: Path, filled: ElicitResult, reason: str
) -> None:
    play(WRITING, {"text": "as you wish"})
    async with connect(person(filled, seen=[])) as call:
        state = await call("kode_start", prompt="x", cwd=str(project))

    (denial,) = state["result"]["denials"]
    assert reason in denial["reason"]
    assert not (project / "a.txt").exists()


@pytest.mark.parametrize(
    "filled",
    [
        ElicitResult(action="cancel"),
        ElicitResult(action="accept", content={"choice": "everything"}),
        ElicitResult(action="accept", content=None),
    ],
)
async def test_a_form_without_a_choice_leaves_the_question_open(
    connect: Connect, play: Any, project: Path, filled: ElicitResult
) -> None:
    play(WRITING, {"text": "made it"})
    async with connect(person(filled, seen=[])) as call:
        state = await call("kode_start", prompt="x", cwd=str(project))
        assert state["status"] == "asks"
        question = state["question"]
        done = await call(
            "kode_answer", session=state["session"], question=question["id"], choice="once"
        )

    assert done["result"]["files_changed"] == ["a.txt"]


async def test_the_state_asks_where_a_client_lacks_forms(
    connect: Connect, play: Any, project: Path
) -> None:
    play(WRITING, {"text": "made it"})
    async with connect() as call:
        state = await call("kode_start", prompt="x", cwd=str(project))
        assert state["status"] == "asks"
        question = state["question"]
        assert "+new" in question["what"]
        assert question["why"]
        assert list(question["choices"]) == ["once", "session", "no"]
        assert (await call("kode_sessions"))["sessions"][0]["status"] == "asks"
        answer = {"session": state["session"], "question": question["id"]}
        await call.fault("kode_answer", **{**answer, "question": "q9"}, choice="once")
        lasting = await call.fault("kode_answer", **answer, choice="project")
        done = await call("kode_answer", **answer, choice="once")
        await call.fault("kode_answer", **answer, choice="once")

    assert done["result"]["files_changed"] == ["a.txt"]
    assert "'once', 'session' or 'no'" in lasting
    assert approvals.load(paths.home(), project) == ((), "")


async def test_a_destructive_call_takes_no_lasting_answer(
    connect: Connect, play: Any, project: Path
) -> None:
    (project / "kept").mkdir()
    (project / "kept" / "a.txt").write_text("work of a day")
    play(
        {"calls": [{"name": "shell", "arguments": {"command": "ls ..; rm -rf kept"}}]},
        {"text": "no"},
    )
    async with connect() as call:
        state = await call("kode_start", prompt="x", cwd=str(project), mode="auto-edit")
        question = state["question"]
        assert question["what"] == "ls ..; rm -rf kept"
        assert question["destroys"]
        assert list(question["choices"]) == ["once", "no"]
        lasting = await call.fault(
            "kode_answer", session=state["session"], question=question["id"], choice="session"
        )
        await call("kode_answer", session=state["session"], question=question["id"], choice="no")

    assert "each time" in lasting
    assert (project / "kept" / "a.txt").exists()


@pytest.mark.parametrize("connect", ["legacy"], indirect=True)
async def test_a_call_waits_no_longer_than_asked(
    connect: Connect, play: Any, project: Path
) -> None:
    play(WRITING, {"text": "made it"})
    reads = asyncio.Event()
    forms = 0

    async def slow(context: Any, form: Any) -> ElicitResult:
        nonlocal forms
        forms += 1
        await reads.wait()
        return ElicitResult(action="accept", content={"choice": "once"})

    async with connect(slow) as call:
        state = await call("kode_start", prompt="x", cwd=str(project), wait_s=0.1)
        while state["status"] == "working":
            state = await call("kode_wait", session=state["session"], wait_s=0.1)
        assert state["status"] == "asks"
        assert "person" in state["question"]["asked"]
        state = await call("kode_wait", session=state["session"], wait_s=0.1)
        assert state["status"] == "asks"
        reads.set()
        state = await call("kode_wait", session=state["session"])

    assert state["result"]["files_changed"] == ["a.txt"]
    assert forms == 1


@pytest.mark.parametrize("connect", ["legacy"], indirect=True)
async def test_an_answer_of_the_client_withdraws_the_form(
    connect: Connect, play: Any, project: Path
) -> None:
    play(WRITING, {"text": "as you wish"})

    async def never(context: Any, form: Any) -> ElicitResult:
        await asyncio.Event().wait()
        raise AssertionError

    async with connect(never) as call:
        state = await call("kode_start", prompt="x", cwd=str(project), wait_s=0.1)
        while state["status"] == "working":
            state = await call("kode_wait", session=state["session"], wait_s=0.1)
        question = state["question"]["id"]
        done = await call("kode_answer", session=state["session"], question=question, choice="no")

    assert done["status"] == "done"
    assert not (project / "a.txt").exists()


async def test_memory_and_trust_are_never_put_to_a_client(
    connect: Connect, play: Any, project: Path
) -> None:
    adding = {"action": "add", "target": "user", "content": "prefers tabs"}
    play(
        {"calls": [{"name": "memory", "arguments": adding}]},
        {"text": "as you wish"},
        memory={"enabled": True},
    )
    (project / ".mcp.json").write_text('{"mcpServers": {"x": {"command": "true"}}}')
    async with connect() as call:
        state = await call("kode_start", prompt="x", cwd=str(project))

    assert state["status"] == "done"
    (denial,) = state["result"]["denials"]
    assert denial["tool"] == "memory"
    assert "their own terminal" in denial["reason"]
    assert state["result"]["untrusted"] == ["MCP server x"]
