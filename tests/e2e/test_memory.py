"""Memory through the installed command: what one session learns, the next one knows."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.e2e.command import Finished, Place
from tests.scripted_server import ScriptedServer

Request = dict[str, Any]
Script = Sequence[dict[str, Any]] | Callable[[Request], dict[str, Any]]

FACT = "Releases are cut on Fridays"
NOTE = {"narrative": "Agreed on the day of releases.", "facts": [{"fact": FACT, "quote": FACT}]}


def system_of(request: Request) -> str:
    return str(request["messages"][0]["content"])


def is_of_memory(request: Request) -> bool:
    """Whether memory asks about an ended session."""
    return system_of(request).startswith(("You write the note of", "You look back on a session"))


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def run(place: Place, script: Script, *arguments: str) -> tuple[Finished, list[Request]]:
    """A command; returns it with the requests of the agent."""
    with ScriptedServer(script) as server:
        place.url = server.openai_url
        done = place.run(*arguments, "--provider", "openai")
        requests = [request.json for request in server.requests]
    assert done.code == 0, done.err
    return done, [request for request in requests if not is_of_memory(request)]


@pytest.mark.smoke
def test_every_session_knows_a_fact_until_it_is_undone(place: Place) -> None:
    add = call("memory", action="add", target="user", content="User likes tabs")
    done, own = run(place, [add, {"text": "Noted."}], "run", "I like tabs")
    assert "User likes tabs" not in system_of(own[0])
    assert system_of(own[0]) == system_of(own[1])
    assert 'added to user: "User likes tabs"' in done.err

    _, new = run(place, [{"text": "Hello."}], "run", "hello")
    _, continued = run(place, [{"text": "Again."}], "continue", "and again")
    assert "User likes tabs" in system_of(new[0])
    assert system_of(continued[0]) == system_of(new[0])

    assert place.run("memory", "undo").code == 0
    assert "User likes tabs" not in place.run("memory", "show").out


def learn(request: Request) -> dict[str, Any]:
    """A model that keeps what the person said, once memory asks for it."""
    if not is_of_memory(request):
        return {"text": "Fine."}
    if not request.get("tools"):
        return {"text": json.dumps(NOTE)}
    if request["messages"][-1]["role"] == "tool":
        return {"text": "{}"}
    return call("memory_write", path="facts/project.md", content=f"- {FACT}\n")


@pytest.mark.parametrize("system", ["tiered", "vault", "journal", "notes"])
def test_the_next_session_knows_what_one_taught(place: Place, system: str) -> None:
    place.home.mkdir()
    settings = {"memory": {"system": system, "min_turns_for_extraction": 1}}
    (place.home / "config.json").write_text(json.dumps(settings))

    _, first = run(place, learn, "run", f"{FACT}. Please keep to it.")
    _, second = run(place, learn, "run", "when do we release?")

    assert FACT not in system_of(first[0])
    assert FACT in json.dumps(second[0]["messages"])
    assert list((place.home / "memory/pending" / system).iterdir()) == []


def versions(place: Place) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in (place.home / "memory").rglob("*")}


def test_memory_that_is_off_is_neither_read_nor_written(place: Place) -> None:
    place.run("memory", "add", "user", "User likes tabs")
    before = versions(place)

    _, own = run(place, [{"text": "Hi."}], "run", "hello", "--no-memory")

    assert "User likes tabs" not in json.dumps(own)
    assert "memory" not in [tool["function"]["name"] for tool in own[0]["tools"]]
    assert versions(place) == before
