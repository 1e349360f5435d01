"""What every memory system promises the loop, whichever it is. A new system is tested by its
line in `systems.py`; the null one has none.
"""

import asyncio
import json
import multiprocessing
import threading
from datetime import UTC, datetime

import pytest

from kode.config.model import MemoryConfig
from kode.errors import KodeError
from kode.events import no_emit
from kode.memory.commands import memory_command
from kode.memory.contract import Drop, Injection, MemoryContext, MemorySystem, Turn
from kode.memory.log import Log
from kode.memory.system import Guarded, make_guarded, make_system
from kode.messages import Message, Text, user_message
from kode.tool import ToolContext
from kode.workplace import NOWHERE
from tests.memory.systems import TARGETS

NAMES = [*TARGETS, "none"]
SESSION = "20260301-123400-abcdef"
REPEATS = {"tiered", "journal"}
"""Systems that say what the last turns were about after messages were dropped."""


def make(name):
    if name == "none":
        return make_guarded(MemoryConfig(enabled=False))
    return make_guarded(MemoryConfig(system=name))


def context(root, **changes):
    values = {
        "root": root / "memory",
        "cwd": root,
        "project_root": None,
        "session_id": SESSION,
        "emit": no_emit,
        "ask_reply": None,
        "now": lambda: datetime(2026, 3, 1, 12, 34, tzinfo=UTC),
    }
    return MemoryContext(**{**values, **changes})


def a_turn(number, text="rename the parser", **changes):
    answer = Message(role="assistant", parts=(Text(text="done"),), stop="end")
    messages = (user_message(text), answer)
    return Turn(number=number, text=text, answer="done", messages=messages, **changes)


async def add(name, root, *texts):
    """A person adds entries at the command line, where the system keeps any."""
    memory = make(name)
    await memory.open(context(root, session_id=None), {})
    for text in texts if name in TARGETS else ():
        await memory_command(memory, ["add", TARGETS[name], text])
    await memory.close(1.0)


async def injected(name, root, reason, state=None, **changes):
    """What a process injects."""
    memory = make(name)
    await memory.open(context(root, **changes), state or {})
    injection = await memory.inject(reason)
    await memory.close(1.0)
    return injection


async def live(memory, root, turns=3, state=None, **changes):
    """A session from opening to closing; returns its state."""
    await memory.open(context(root, **changes), state or {})
    await memory.inject("resume" if state else "start")
    messages = []
    for number in range(1, turns + 1):
        turn = a_turn(number)
        await memory.recall(turn)
        await memory.after_turn(turn)
        messages += turn.messages
    await memory.maintain()
    await memory.before_drop(messages, "exit")
    kept = memory.state()
    await memory.close(1.0)
    return kept


def files_of(root):
    return {
        path: path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def memory(name):
    return make(name)


async def test_every_hook_answers_neutrally_on_an_empty_root(memory, tmp_path):
    events = []
    await memory.open(context(tmp_path, emit=events.append), {})

    injection = await memory.inject("start")
    recalled = await memory.recall(a_turn(1))
    hits = await memory.search("parser", 5)

    assert isinstance(injection, Injection)
    assert isinstance(recalled, str)
    assert hits == []
    assert [event for event in events if event.type == "notice"] == []


async def test_the_tools_and_their_order_are_equal_in_every_process(name, tmp_path):
    listed = []
    for _ in range(2):
        memory = make(name)
        await memory.open(context(tmp_path), {})
        listed.append([(t.name, t.effect, dict(t.parameters())) for t in memory.tools()])
        await memory.close(1.0)

    assert listed[0] == listed[1]
    assert {effect for _, effect, _ in listed[0]} <= {"memory", "memory-read"}


async def test_the_state_survives_json_and_continues_in_a_new_process(name, tmp_path):
    kept = await live(make(name), tmp_path)

    state = json.loads(json.dumps(dict(kept)))
    again = make(name)
    await again.open(context(tmp_path), {**state, "unknown key": [1]})

    assert json.loads(json.dumps(dict(again.state()))) == state
    await again.close(1.0)


@pytest.mark.parametrize(
    "state", [{"buffer": 1, "cursor": "x", "shown": {}}, {"": None}, {"system": "another"}]
)
async def test_a_state_of_something_else_is_ignored(memory, tmp_path, state):
    events = []

    await live(memory, tmp_path, state=state, emit=events.append)

    assert [e.text for e in events if e.type == "notice" and e.level != "info"] == []


async def test_two_continues_with_nothing_between_them_inject_the_same_bytes(name, tmp_path):
    kept = await live(make(name), tmp_path)

    injections = []
    for _ in range(2):
        memory = make(name)
        await memory.open(context(tmp_path), kept)
        injections.append(await memory.inject("resume"))
        await memory.close(1.0)

    assert injections[0] == injections[1]


async def test_the_section_is_equal_for_every_reason_process_and_hour(name, tmp_path):
    await add(name, tmp_path, "Deploys go out on Fridays", "The build runs with make")
    memory = make(name)
    await memory.open(context(tmp_path), {})
    sections = [(await memory.inject(reason)).system for reason in ("start", "start", "compacted")]
    await memory.close(1.0)

    for hour in (0, 23):
        now = datetime(2026, 3, 1, hour, 59, tzinfo=UTC)
        for reason in ("start", "resume", "trimmed"):
            injection = await injected(name, tmp_path, reason, now=lambda now=now: now)
            sections.append(injection.system)

    assert len(set(sections)) == 1


async def test_the_sessions_own_turns_leave_the_section_unchanged(name, tmp_path):
    await add(name, tmp_path, "Deploys go out on Fridays")
    memory = make(name)
    await memory.open(context(tmp_path), {})
    first = (await memory.inject("start")).system
    for number in (1, 2, 3):
        await memory.recall(a_turn(number, f"paint zeppelin {number}"))
        await memory.after_turn(a_turn(number, f"paint zeppelin {number}"))
    later = (await memory.inject("resume")).system
    state = json.loads(json.dumps(dict(memory.state())))
    await memory.close(1.0)

    for reason in ("resume", "trimmed", "compacted"):
        assert (await injected(name, tmp_path, reason, state)).system == later == first


async def test_the_last_turns_come_once_after_messages_were_dropped(name, tmp_path):
    memory = make(name)
    await memory.open(context(tmp_path), {})
    await memory.inject("start")
    await memory.recall(a_turn(1, "paint the zeppelin"))
    await memory.after_turn(a_turn(1, "paint the zeppelin"))
    state = json.loads(json.dumps(dict(memory.state())))
    await memory.close(1.0)

    for reason in ("compacted", "trimmed"):
        memory = make(name)
        await memory.open(context(tmp_path), state)
        before, dropped, after = [
            await memory.inject(reason) for reason in ("resume", reason, "resume")
        ]
        await memory.close(1.0)
        for injection in (before, after, await injected(name, tmp_path, "start", state)):
            assert "zeppelin" not in injection.system + injection.first_user
        assert "zeppelin" not in dropped.system
        assert dropped.first_user.count("zeppelin") == (name in REPEATS)


async def test_another_entry_adds_only_lines_that_hold_it(name, tmp_path):
    await add(name, tmp_path, "Deploys go out on Fridays", "The build runs with make")
    first = (await injected(name, tmp_path, "start")).system
    await add(name, tmp_path, "The zeppelin parser is in airship.py")
    second = (await injected(name, tmp_path, "start")).system

    before, after = ([line for line in text.split("\n") if line] for text in (first, second))

    assert [line for line in after if line in before] == before
    new = [line for line in after if line not in before]
    assert len(new) == bool(first)
    assert all("The zeppelin parser is in airship.py" in line for line in new)


@pytest.mark.parametrize("name", TARGETS)
async def test_an_undone_entry_leaves_the_section_as_it_was_before(name, tmp_path):
    await add(name, tmp_path, "Deploys go out on Fridays", "The build runs with make")
    first = (await injected(name, tmp_path, "start")).system
    await add(name, tmp_path, "The zeppelin parser is in airship.py")

    memory = make(name)
    await memory.open(context(tmp_path, session_id=None), {})
    await memory_command(memory, ["undo"])
    await memory.close(1.0)

    assert (await injected(name, tmp_path, "resume")).system == first


async def test_read_only_writes_nothing(name, tmp_path):
    await live(make(name), tmp_path)
    before = files_of(tmp_path)

    await live(make(name), tmp_path, read_only=True, session_id="20260302-123400-abcdef")

    assert files_of(tmp_path) == before


async def test_no_thread_or_task_is_left_behind(memory, tmp_path):
    threads = threading.active_count()

    await live(memory, tmp_path)

    assert threading.active_count() == threads
    assert len(asyncio.all_tasks()) == 1


async def test_a_failing_model_does_not_fail_the_session(name, tmp_path):
    async def failing(request):
        raise RuntimeError("the server is on fire")

    await live(make(name), tmp_path, ask_reply=failing)

    again = make(name)
    await again.open(context(tmp_path), {})
    assert isinstance(await again.inject("start"), Injection)
    await again.close(1.0)


def test_only_faults_in_a_row_take_a_systems_tools_away():
    guarded = Guarded(MemorySystem())
    for answer in ([], [], ["no"], [], [], ["no"]):  # an empty one is a fault
        guarded.system.tools = lambda answer=answer: (answer[0],)
        assert guarded.tools() == tuple(answer)


async def test_a_guarded_memory_is_searched(name, tmp_path):
    await add(name, tmp_path, "Likes tea")
    memory = make(name)
    await memory.open(context(tmp_path), {})
    assert ("Likes tea" in await memory_command(memory, ["search", "tea"])) is (name in TARGETS)
    await memory.close(1.0)


async def test_a_cancelled_drop_is_passed_on_and_memory_opens_again(name, tmp_path):
    asked = asyncio.Event()

    async def hanging(request):
        asked.set()
        await asyncio.Event().wait()

    memory = make(name)
    await memory.open(context(tmp_path, ask_reply=hanging), {})
    messages = []
    for number in (1, 2, 3):
        await memory.after_turn(a_turn(number))
        messages += a_turn(number).messages
    task = asyncio.create_task(memory.before_drop(messages, "reset"))
    waiting = asyncio.create_task(asked.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not task.done():
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        assert isinstance(task.result(), Drop)
    await memory.close(0.1)

    again = make(name)
    await again.open(context(tmp_path), {})
    await again.close(0.1)


async def test_a_subagent_gets_the_same_snapshot_twice(memory, tmp_path):
    await live(memory, tmp_path)
    again = memory
    await again.open(context(tmp_path), {})

    first, second = await again.snapshot(), await again.snapshot()

    assert first == second
    assert all(section.title and section.content for section in first)


async def test_other_systems_folders_stay_untouched(memory, tmp_path):
    for other in ("vault", "journal", "notes", "elsewhere"):
        if other != memory.name:
            (tmp_path / "memory" / other).mkdir(parents=True)
            (tmp_path / "memory" / other / "file.md").write_text("theirs")

    await live(memory, tmp_path)

    for other in ("vault", "journal", "notes", "elsewhere"):
        if other != memory.name:
            kept = tmp_path / "memory" / other
            assert [(p.name, p.read_text()) for p in kept.iterdir()] == [("file.md", "theirs")]


WRITES = 60


def _writes(name, word, number):
    """How a system's tools write one fact: (tool, arguments). A system adds its line here."""
    match name:
        case "tiered":
            target = "user" if number % 2 else "env"
            yield "memory", {"action": "add", "target": target, "content": word}
            if number % 10 == 9:
                yield (
                    "memory",
                    {
                        "action": "replace",
                        "target": target,
                        "old_text": word,
                        "content": f"{word} again",
                    },
                )
        case "vault":
            yield "memory_append", {"path": "episodes/2026-03.md", "entry": word}
        case "notes":
            yield "remember", {"content": word}


def write_many(name, root, writer, both_ready):
    """In a process of its own: mixed writes; what was acknowledged goes into a file."""
    asyncio.run(_write_many(name, root, writer, both_ready))


async def _write_many(name, root, writer, both_ready):
    roomy = {"facts_limit_user": 100_000, "facts_limit_env": 100_000, "merge_on_write": False}
    memory = make_system(MemoryConfig(system=name, **roomy))
    await memory.open(context(root), {})
    tools = {tool.name: tool for tool in memory.tools()}
    where = ToolContext(place=NOWHERE, call_id="c", session_id=None, emit=no_emit, seen_files={})
    acknowledged = []
    both_ready.wait(60)
    for number in range(WRITES):
        word = f"{writer}{number:03d}"
        for tool_name, arguments in _writes(name, word, number):
            try:
                await tools[tool_name].run(where, tools[tool_name].check(arguments))
            except KodeError:
                continue
            acknowledged.append(word)
    (root / f"acknowledged-{writer}").write_text("\n".join(acknowledged))
    await memory.close(1.0)


@pytest.mark.parametrize("name", [n for n in TARGETS if [*_writes(n, "x", 0)]])
@pytest.mark.slow
def test_two_processes_lose_no_write_they_were_told_of(name, tmp_path):
    spawn = multiprocessing.get_context("spawn")
    both_ready = spawn.Barrier(2)
    processes = [
        spawn.Process(target=write_many, args=(name, tmp_path, writer, both_ready))
        for writer in ("left", "right")
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)

    acknowledged = [
        word
        for writer in ("left", "right")
        for word in (tmp_path / f"acknowledged-{writer}").read_text().split()
    ]
    everything = b"\n".join(
        data
        for path, data in files_of(tmp_path / "memory").items()
        if name == "notes" or "history" not in path.name  # notes have no other file
    )
    assert [process.exitcode for process in processes] == [0, 0]
    # On a very busy machine one may be refused, and told so, since the other holds the lock.
    assert len(acknowledged) > WRITES
    assert [word for word in acknowledged if word.encode() not in everything] == []
    assert not Log(tmp_path / "memory" / "history.jsonl").damage()
