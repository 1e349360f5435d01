"""Permission questions: a form for the client's person where it can show one, else a state."""

import asyncio

import pytest
from mcp_types import ElicitResult

from kode import paths
from kode.permissions import approvals
from tests.plugins.serve.conftest import MADE, WRITING

CHOICES = ["once", "session", "no"]
OLDER = pytest.mark.parametrize("serve", ["legacy"], indirect=True)
"""Only clients of the older protocol are asked by forms."""


def accepting(**content):
    return ElicitResult(action="accept", content=content or None)


def person(filled, seen):
    """Who fills in each form so."""

    async def elicit(context, form):
        seen.append(form)
        return filled

    return elicit


@OLDER
async def test_a_form_shows_the_whole_question_and_takes_the_answer(serve, project):
    seen = []
    async with serve(*MADE, person=person(accepting(choice="once"), seen)) as call:
        state = await call.start()

    assert state["result"]["files_changed"] == ["a.txt"]
    (form,) = seen
    assert "+new" in form.message
    assert "Edit this file?" in form.message
    assert form.requested_schema["properties"]["choice"]["enum"] == CHOICES
    assert (project / "a.txt").read_text() == "new\n"


@OLDER
async def test_an_answer_for_the_session_holds_for_its_later_calls(serve, project):
    second = {"calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": "b"}}]}
    seen = []
    yes = person(accepting(choice="session"), seen)
    async with serve(WRITING, second, {"text": "wrote it twice"}, person=yes) as call:
        state = await call.start()

    assert state["status"] == "done"
    assert (project / "a.txt").read_text() == "b"
    assert len(seen) == 1


@OLDER
@pytest.mark.parametrize(
    ("filled", "reason"),
    [
        (accepting(choice="no", message="use b"), "use b"),
        (ElicitResult(action="decline"), ""),
    ],
)
async def test_a_no_goes_to_the_model_with_its_words(serve, project, filled, reason):
    async with serve(*MADE, person=person(filled, [])) as call:
        (denial,) = (await call.start())["result"]["denials"]

    assert reason in denial["reason"]
    assert not (project / "a.txt").exists()


OPEN = (ElicitResult(action="cancel"), accepting(choice="everything"), accepting())


@OLDER
@pytest.mark.parametrize("filled", OPEN)
async def test_a_form_without_a_choice_leaves_the_question_open(serve, filled):
    async with serve(*MADE, person=person(filled, [])) as call:
        question = await call.question_of(await call.start())
        done = await call("kode_answer", **question, choice="once")

    assert done["result"]["files_changed"] == ["a.txt"]


async def test_the_state_asks_where_a_client_lacks_forms(serve, project):
    async with serve(*MADE) as call:
        state = await call.start()
        shown, question = state["question"], await call.question_of(state)
        assert "+new" in shown["what"]
        assert list(shown["choices"]) == CHOICES
        assert (await call("kode_sessions"))["sessions"][0]["status"] == "asks"
        await call.fault("kode_answer", **{**question, "question": "q9"}, choice="once")
        lasting = await call.fault("kode_answer", **question, choice="project")
        done = await call("kode_answer", **question, choice="once")
        await call.fault("kode_answer", **question, choice="once")

    assert done["result"]["files_changed"] == ["a.txt"]
    assert "'once', 'session' or 'no'" in lasting
    assert approvals.load_approvals(paths.kode_home(), project) == ((), "")


async def test_a_destructive_call_takes_no_lasting_answer(serve, project):
    (project / "work").mkdir()
    (project / "work" / "a.txt").write_text("of a day")
    deletion = {"calls": [{"name": "shell", "arguments": {"command": "ls ..; rm -rf work"}}]}
    async with serve(deletion, {"text": "no"}) as call:
        state = await call.start(mode="auto-edit")
        shown, question = state["question"], await call.question_of(state)
        assert shown["what"] == "ls ..; rm -rf work"
        assert shown["destroys"]
        assert list(shown["choices"]) == ["once", "no"]
        assert "once" in await call.fault("kode_answer", **question, choice="session")
        await call("kode_answer", **question, choice="no")

    assert (project / "work" / "a.txt").exists()


@OLDER
async def test_a_call_waits_no_longer_than_asked(serve):
    reads, forms = asyncio.Event(), []

    async def slow(context, form):
        forms.append(form)
        await reads.wait()
        return accepting(choice="once")

    async with serve(*MADE, person=slow) as call:
        state = await call.start(wait_s=0.1)
        await call.question_of(state)
        state = await call("kode_wait", session=state["session"], wait_s=0.1)
        assert "person" in state["question"]["asked"]
        reads.set()
        state = await call("kode_wait", session=state["session"])

    assert state["result"]["files_changed"] == ["a.txt"]
    assert len(forms) == 1


@OLDER
async def test_an_answer_of_the_client_withdraws_the_form(serve, project):
    async def never(context, form):
        await asyncio.Event().wait()

    async with serve(*MADE, person=never) as call:
        question = await call.question_of(await call.start(wait_s=0.1))
        done = await call("kode_answer", **question, choice="no")

    assert done["status"] == "done"
    assert not (project / "a.txt").exists()


async def test_memory_and_trust_are_never_put_to_a_client(serve, project):
    adding = {"action": "add", "target": "user", "content": "prefers tabs"}
    script = ({"calls": [{"name": "memory", "arguments": adding}]}, {"text": "as you wish"})
    (project / ".mcp.json").write_text('{"mcpServers": {"x": {"command": "true"}}}')
    async with serve(*script, config={"memory": {"enabled": True}}) as call:
        state = await call.start()

    assert state["status"] == "done"
    (denial,) = state["result"]["denials"]
    assert denial["tool"] == "memory"
    assert "their own terminal" in denial["reason"]
    assert state["result"]["untrusted"] == ["MCP server x"]
