"""Subagents in the background: read, told and stopped while they run, by the model and at the
prompt, as real processes."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kode.subagents import records
from tests.e2e.command import KODE, Place
from tests.e2e.terminal import Terminal
from tests.scripted_server import ScriptedServer

Reply = dict[str, Any]

WAITS = (
    "(setsid sleep 61.5 &); touch begun; mktemp begun.XXXXXX; "
    "until [ -e go ]; do sleep 0.02; done; echo on"
)
FULL = ("--permission-mode", "full", "--no-memory")


def call(name: str, **arguments: Any) -> Reply:
    return {"calls": [{"name": name, "arguments": arguments}]}


def start(*goals: str, **more: Any) -> Reply:
    tasks = [{"goal": goal, **more} for goal in goals]
    return call("delegate_tasks", tasks=tasks, background=True)


BEGUN = call("shell", command="until [ -e begun ]; do sleep 0.02; done")
GO = call("shell", command="touch go")


def of_child(request: Reply) -> list[str]:
    """The messages of a child's request from its goal on, as text; none in one of the parent's."""
    texts = [json.dumps(message) for message in request["messages"]]
    begun = [at for at, text in enumerate(texts) if "# Goal" in text]
    return texts[begun[-1] :] if begun else []


def child(request: Reply) -> Reply | None:
    """A child edits a file, waits for `go`, and repeats what it was told."""
    match of_child(request):
        case []:
            return None
        case [_]:
            made = {"name": "write_file", "arguments": {"path": "made.txt", "content": "x"}}
            return {"text": "I begin.", "calls": [made]}
        case [_, _, _]:
            return call("shell", command=WAITS)
        case [*_, last]:
            return {"text": f"The last I heard: {last}"}
    return None


def told(place: Place, *steps: Reply) -> list[str]:
    """What the parent's model got for each of its calls."""
    replies = iter((*steps, {"text": "done"}))

    def script(request: Reply) -> Reply:
        return child(request) or next(replies)

    with ScriptedServer(script, keep=100) as server:
        place.url = server.openai_url
        done = place.run("run", "work", *FULL)
        assert done.code in (0, 1), done.err
        own = [one.json for one in server.requests if not of_child(one.json)]
        return [str(request["messages"][-1]["content"]) for request in own[1:]]


@pytest.fixture
def agents(place: Place) -> Iterator[Any]:
    """The records of the one session's children; none of their processes is left at the end."""

    def found() -> list[records.Record]:
        (path,) = place.session_files
        return records.read_records(path.with_suffix("") / "agents")

    yield found
    deadline = time.monotonic() + 15
    while left := [record.id for record in found() if record.is_alive]:
        assert time.monotonic() < deadline, f"left: {left}"
        time.sleep(0.05)


def test_a_child_that_runs_is_read_and_told(place: Place, agents: Any) -> None:
    started, _, partial, _, _, ended, late = told(
        place,
        start("Wait."),
        BEGUN,
        call("job", id="bg1"),
        call("job", id="bg1", tell="Take the greens too."),
        GO,
        call("job", id="bg1", wait_s=60),
        call("job", id="bg1", tell="And the blues."),
    )

    assert "bg1" in started
    assert "I begin." in partial
    assert "Take the greens too." in ended
    assert "success" in ended
    (record,) = agents()
    assert record.id in ended
    assert record.id in late  # an error that says how to go on
    assert "Take the greens" not in late


@pytest.mark.parametrize("moment", [2, 3, 4, 5])
def test_a_killed_parent_leaves_no_background_child(place: Place, agents: Any, moment: int) -> None:
    def script(request: Reply) -> Reply:
        if reply := child(request):
            return reply
        steps = sum(message["role"] == "assistant" for message in request["messages"])
        late = {"delay_s": 60, "text": "late"}
        return [start("Wait.", "Wait too.", fork=True), BEGUN, late][steps]

    with ScriptedServer(script, keep=100) as server:
        place.url = server.openai_url
        with place.start("run", "work", *FULL) as process:
            server.wait_for_requests(moment)
            process.kill()
    # Whatever was begun has its files, and a later kode says how each of them ended.
    with ScriptedServer([{"text": "I see."}]) as server:
        place.url = server.openai_url
        assert place.run("continue", "and?", *FULL).code == 0
    assert len(agents()) == 2
    assert all(record.result for record in agents())


def test_a_person_moves_tells_and_stops_children(place: Place, agents: Any) -> None:
    def script(request: Reply) -> Reply:
        if reply := child(request):
            return reply
        last = request["messages"][-1]
        if last["role"] == "tool":
            return {"text": "They run."}
        return call("delegate_tasks", tasks=[{"goal": "Wait."}, {"goal": "Wait too."}])

    with ScriptedServer(script, keep=100) as server:
        place.url = server.openai_url
        with Terminal(
            KODE, list(FULL), cwd=place.project, env=place.environ, width=100
        ) as terminal:
            terminal.until(" · gpt-")
            terminal.type("work", "enter")
            terminal.until("Agent 2:")
            while not (place.project / "begun").exists():
                terminal.read()
            terminal.type("\x02")
            terminal.until("They run.")
            terminal.type("/bg", "enter")
            terminal.until("bg1  running", "bg2  running", "Wait too.")
            terminal.type("/bg kill bg2", "enter")
            terminal.until("Stopped bg2: Wait too.")
            terminal.type("/bg tell bg1 Take the greens.", "enter")
            terminal.until("bg1 gets it with its next step.")
            (place.project / "go").touch()
            terminal.until("bg1 has ended, success")
            terminal.type("/bg read bg1", "enter")
            terminal.until("The last I heard", "Take the greens.")
            terminal.type("ctrl-d")
            terminal.until("Resume with")

    statuses = [record.result.status for record in agents() if record.result]
    assert statuses == ["success", "interrupted"]
