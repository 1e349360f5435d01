"""Notes through the installed command: told in one session, known in the next."""

import json

import pytest

from tests.e2e.command import Place
from tests.scripted_server import ScriptedServer

NOTES = ("--memory", "notes", "--provider", "openai")


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def run(place: Place, replies, *arguments: str):
    """A task; the answer and the requests that the model saw."""
    with ScriptedServer(replies, repeat_last=True) as server:
        place.url = server.openai_url
        done = place.run(*arguments, *NOTES)
        requests = [json.loads(request.body) for request in server.requests]
    assert done.code == 0, done.err
    return done, requests


def rows(place: Place) -> list[dict]:
    done = place.run("memory", "export", "--memory", "notes")
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def call(name: str, **arguments) -> dict:
    return {"calls": [{"name": name, "arguments": arguments}]}


def test_remembered_notes_are_told_to_the_model_next_session(place):
    rule = {"kind": "rule", "confidence": 0.9, "evidence": ["said by the user"]}
    first, _ = run(
        place,
        [
            call("remember", content="never force-push", **rule),
            call("remember", content="the staging port is 5433"),
            {"text": "Kept."},
        ],
        "run",
        "I tell you two things",
    )

    _, requests = run(place, [{"text": "5433"}], "run", "which staging port do we use?")

    system, user = (str(message["content"]) for message in requests[0]["messages"][:2])
    assert first.out.strip() == "Kept."
    assert "[rule] never force-push" in system
    assert "[log] the staging port is 5433" in user
    assert "memory: remembered" in first.err
    assert [tool["function"]["name"] for tool in requests[0]["tools"]][-5:] == [
        "remember",
        "recall",
        "update_memory",
        "update_soul",
        "forget",
    ]


def test_an_empty_memory_changes_nothing_but_the_tools(place):
    _, with_notes = run(place, [{"text": "Hi."}], "run", "hello")
    with ScriptedServer([{"text": "Hi."}], repeat_last=True) as server:
        place.url = server.openai_url
        place.run("run", "hello", "--no-memory", "--provider", "openai")
        without = json.loads(server.requests[0].body)

    assert with_notes[0]["messages"] == without["messages"]


def test_a_wish_to_remember_is_kept_without_asking_the_model(place):
    run(place, [{"text": "Fine."}], "run", "remember that we deploy on Fridays")

    (note,) = [row for row in rows(place) if row["kind"] != "soul"]
    assert note["content"] == "remember that we deploy on Fridays"
    assert (note["kind"], note["stability"]) == ("log", "volatile")
    assert note["expires_at"][:10] > note["created_at"][:10]


def test_a_job_is_summed_up_and_undone(place):
    script = [call("shell", command="echo built"), {"text": "It is built."}]
    done, _ = run(place, script, "run", "build it", "--permission-mode", "full")

    (note,) = [row for row in rows(place) if row["kind"] == "summary"]
    log = place.run("memory", "log", "--memory", "notes").out
    undone = place.run("memory", "undo", log.split()[0], "--memory", "notes")

    assert note["content"] == "Task: build it\nDone: ran `echo built`\nOutcome: It is built."
    assert note["job_id"].endswith("#1")
    assert undone.code == 0
    assert [row["kind"] for row in rows(place)] == ["soul"]
    assert done.out.strip() == "It is built."


def test_a_refused_note_tells_the_model_why(place):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    _, requests = run(
        place,
        [call("remember", content=f"token {secret}"), {"text": "I do not keep that."}],
        "run",
        "keep my token",
    )

    told = str(requests[1]["messages"][-1]["content"])
    assert "credential" in told
    assert secret not in told
    assert secret.encode() not in (place.home / "memory" / "notes" / "notes.db").read_bytes()
    assert [row["kind"] for row in rows(place)] == ["soul"]


def test_the_prompt_stays_the_same_while_notes_are_written(place):
    _, requests = run(
        place,
        [
            call("remember", content="likes tabs"),
            call("update_soul", content="I am terse."),
            {"text": "ok"},
        ],
        "run",
        "two things",
    )

    systems = {str(request["messages"][0]["content"]) for request in requests}
    assert len(systems) == 1


def test_switching_to_notes_leaves_the_other_memory_untouched(place):
    place.run("memory", "add", "user", "likes tabs")
    facts = place.home / "memory" / "facts" / "user.md"
    before = (facts.read_bytes(), facts.stat().st_mtime_ns)

    _, requests = run(place, [{"text": "ok"}], "run", "hello")

    assert "likes tabs" not in str(requests)
    assert (facts.read_bytes(), facts.stat().st_mtime_ns) == before
