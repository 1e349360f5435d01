import asyncio
import json
from dataclasses import replace

import pytest

from kode import durable
from kode.errors import MemoryRefused, ProviderError, StorageError
from kode.memory import review
from kode.memory.commands import memory_command
from kode.memory.vault.reflect import GATHERED_CHARS, TASK_CHARS
from kode.messages import Message, Text, results_of, text_of
from tests.memory.life import OTHER_SESSION, notices, turn
from tests.memory.replies import Replies, calls, says
from tests.memory.vault.life import file, opened, put

WRITE = ("memory_write", {"path": "facts/user.md", "content": "- Name: Zhang"})
EPISODE = ("memory_append", {"path": "episodes/2026-03.md", "entry": "## Fix\n- Summary: a fix"})


def worth(number=1, text="I am Zhang", **changes):
    return turn(number, text, **{"answer": "x" * 200, **changes})


def pending(root):
    return sorted(path.name for path in file(root, "pending").glob("*.json"))


@pytest.mark.parametrize(("text", "asked"), [("hi", 1), (" \n", 0)])
async def test_every_task_of_a_person_is_judged_by_the_model(tmp_path, text, asked):
    model = Replies([says("nothing")])
    system = await opened(tmp_path, ask_reply=model)

    await system.after_turn(turn(1, text, steps=1, answer="ok"))
    await system.close(60)

    assert len(model.requests) == asked
    assert pending(tmp_path) == []


async def test_a_reflection_writes_by_the_tools_until_it_is_done(tmp_path):
    put(tmp_path, "facts/project.md", "> Summary: x\n- Tests: make check\n")
    put(tmp_path, "episodes/2026-01.md", "> Summary: old\n")
    put(tmp_path, "episodes/2026-02.md", "> Summary: newer\n")
    model = Replies([calls(WRITE, EPISODE), says("done")])
    events = []
    system = await opened(tmp_path, ask_reply=model, emit=events.append)

    await system.after_turn(worth())
    await system.close(60)

    request = model.requests[0]
    assert "- Tests: make check" in request.system
    assert request.system.index("2026-02.md (") < request.system.index("2026-01.md (")
    assert "2026-03-01" in request.system
    assert "episodes/2026-03.md" in request.system
    assert "I am Zhang" in request.messages[0].parts[0].text
    assert [spec.name for spec in request.tools] == [
        "memory_read",
        "memory_write",
        "memory_patch",
        "memory_append",
    ]
    assert "- Name: Zhang" in file(tmp_path, "facts/user.md").read_text()
    assert "## Fix" in file(tmp_path, "episodes/2026-03.md").read_text()
    assert len([e for e in events if e.type == "memory_changed"]) == 2
    assert {c.who for c in system.history.tail(9).changes} == {"extraction"}
    assert pending(tmp_path) == []


async def test_an_answer_in_words_ends_it_after_one_call(tmp_path):
    model = Replies([says("nothing worth it")])
    system = await opened(tmp_path, ask_reply=model)

    await system.after_turn(worth())
    await system.close(60)

    assert len(model.requests) == 1
    assert list(file(tmp_path, "").rglob("*.md")) == []


async def test_calls_that_cannot_be_read_are_explained_once(tmp_path):
    unread = says('{"name": "memory_write", "arguments": {}}', stop="malformed_call")
    model = Replies([unread, calls(WRITE), says("done")])
    system = await opened(tmp_path, ask_reply=model)

    await system.after_turn(worth())
    await system.close(60)

    assert "tool interface" in text_of(model.requests[1].messages[-1])
    assert "- Name: Zhang" in file(tmp_path, "facts/user.md").read_text()
    assert pending(tmp_path) == []


async def test_a_task_with_unreadable_calls_waits_for_the_next_start(tmp_path):
    unread = says('{"name": "memory_write", "arguments": {}}', stop="malformed_call")
    events = []
    system = await opened(tmp_path, ask_reply=Replies([unread]), emit=events.append)

    await system.after_turn(worth())
    await system.close(60)

    assert len(pending(tmp_path)) == 1
    assert "cannot be read" in notices(events)[0]
    model = Replies([calls(WRITE), says("ok")])
    again = await opened(tmp_path, ask_reply=model)
    await again.maintain()
    await again.close(60)
    assert len(model.requests[0].messages) == 1
    assert "- Name: Zhang" in file(tmp_path, "facts/user.md").read_text()
    assert pending(tmp_path) == []


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("memory_write", {"path": "facts/user.md", "content": "none"}),
        (
            "memory_append",
            {
                "path": "episodes/2026-03.md",
                "entry": "## Short title\n- Summary: under 10 words, shorthand, arrows",
            },
        ),
    ],
)
async def test_the_example_of_the_instructions_is_no_memory(tmp_path, tool, given):
    model = Replies([calls((tool, given)), says("nothing")])
    system = await opened(tmp_path, ask_reply=model)

    await system.after_turn(worth())
    await system.close(60)

    assert "not the example" in results_of(model.requests[1].messages[-1])[0].text
    assert list(file(tmp_path, "").rglob("*.md")) == []


async def test_an_endless_reflection_stops_after_five_calls_with_a_warning(tmp_path):
    model = Replies([calls(("memory_read", {"path": "facts/none.md"}))])
    events = []
    system = await opened(tmp_path, ask_reply=model, emit=events.append)

    await system.after_turn(worth())
    await system.close(60)

    assert len(model.requests) == 5
    (notice,) = notices(events)
    assert "after 5 calls" in notice
    assert pending(tmp_path) == []


async def test_bad_calls_get_their_error_and_the_reflection_continues(tmp_path):
    bad = [("memory_write", '{"path": '), ("shell", {"command": "ls"}), ("memory_read", "[1]")]
    model = Replies([calls(*bad, ("memory_write", {"path": "../x"})), calls(WRITE), says("ok")])
    system = await opened(tmp_path, ask_reply=model)

    await system.after_turn(worth())
    await system.close(60)

    results = model.requests[1].messages[-1].parts
    assert [result.text.startswith('{"error": ') for result in results] == [True] * 4
    assert all(result.is_error for result in results)
    assert file(tmp_path, "facts/user.md").exists()


async def test_calls_of_a_cut_reply_are_not_run(tmp_path):
    model = Replies([calls(WRITE, stop="length"), says("ok")])
    system = await opened(tmp_path, ask_reply=model)

    await system.after_turn(worth())
    await system.close(60)

    assert not file(tmp_path, "facts/user.md").exists()


async def test_a_task_waits_for_a_restart_when_the_provider_fails(tmp_path):
    events = []
    system = await opened(tmp_path, ask_reply=Replies([ProviderError("down")]), emit=events.append)
    await system.after_turn(worth())
    await system.close(60)

    assert pending(tmp_path) == ["20260301-123400-abcdef.0001.json"]
    assert any("down" in notice for notice in notices(events))
    assert "not finished with: 1" in await memory_command(system, ["status"])

    model = Replies([calls(WRITE), says("ok")])
    again = await opened(tmp_path, ask_reply=model, session_id=OTHER_SESSION)
    await again.maintain()

    assert "I am Zhang" in model.requests[0].messages[0].parts[0].text
    assert file(tmp_path, "facts/user.md").exists()
    assert pending(tmp_path) == []
    assert again.history.tail(1).changes[0].session == "20260301-123400-abcdef"


async def test_a_task_is_kept_when_the_disk_is_full(tmp_path, monkeypatch):
    replace = durable.replace

    def full(path, data, **more):
        if "facts" in path.parts:
            raise StorageError("Could not write. The disk is full: free some space and try again.")
        replace(path, data, **more)

    monkeypatch.setattr(durable, "replace", full)
    events = []
    system = await opened(
        tmp_path, ask_reply=Replies([calls(WRITE), says("done")]), emit=events.append
    )

    await system.after_turn(worth())
    await system.close(60)

    assert len(pending(tmp_path)) == 1
    assert any("disk is full" in text and "tried again later" in text for text in notices(events))


async def test_closing_stops_after_its_grace_and_leaves_the_task(tmp_path):
    started = asyncio.Event()

    async def hanging(request):
        started.set()
        await asyncio.Event().wait()

    system = await opened(tmp_path, ask_reply=hanging)
    await system.after_turn(worth())

    await system.close(0.1)

    assert started.is_set()
    assert len(asyncio.all_tasks()) == 1
    assert pending(tmp_path) == ["20260301-123400-abcdef.0001.json"]


async def test_a_session_of_twenty_turns_is_reflected_on_at_once(tmp_path):
    model = Replies([calls(WRITE, EPISODE), says("done")])
    system = await opened(tmp_path, ask_reply=model)

    for number in range(1, 21):
        await system.after_turn(worth(number, f"I am Zhang, part {number} of it"))
    waits, asked = len(pending(tmp_path)), len(model.requests)
    await system.close(60)

    assert (waits, asked) == (20, 0)
    assert len(model.requests) == 2
    said = text_of(model.requests[0].messages[0])
    assert [f"part {number} of it" in said for number in range(1, 21)] == [True] * 20
    assert pending(tmp_path) == []


async def test_gathered_tasks_are_reflected_on_before_the_end(tmp_path):
    asked = asyncio.Event()

    async def nothing(request):
        asked.set()
        return says("nothing")

    system = await opened(tmp_path, ask_reply=nothing)
    long = "x" * (TASK_CHARS - 100)

    for number in range(1, 1 + GATHERED_CHARS // TASK_CHARS + 1):
        said = (Message(role="user", parts=(Text(text=long[:1900]),)),) * 5
        await system.after_turn(replace(worth(number, "look"), messages=said))
    await asked.wait()
    await system.close(60)

    assert pending(tmp_path) == []


async def test_an_untrusted_turn_keeps_out_of_what_others_left(tmp_path):
    model = Replies([says("nothing")])
    system = await opened(tmp_path, ask_reply=model)
    await system.after_turn(worth(1, "a plain request"))
    await system.after_turn(worth(2, "read that page", tainted=True))

    await system.close(60)

    assert "that page" not in text_of(model.requests[0].messages[0])
    assert [one.id for one in await review.waiting(system)] == ["20260301-123400-abcdef.0002"]


async def test_a_reflection_continues_where_an_earlier_start_stopped(tmp_path):
    model = Replies([calls(EPISODE), ProviderError("gone"), says("ok")])
    system = await opened(tmp_path, ask_reply=model)
    await system.after_turn(worth())
    await system.close(60)

    again = await opened(tmp_path, ask_reply=model, session_id=OTHER_SESSION)
    await again.maintain()

    assert model.requests[2].messages == model.requests[1].messages
    assert file(tmp_path, "episodes/2026-03.md").read_text().count("## Fix") == 1
    assert pending(tmp_path) == []


async def test_calls_of_a_killed_reflection_are_made_once(tmp_path):
    model = Replies([calls(EPISODE), ProviderError("gone")])
    system = await opened(tmp_path, ask_reply=model)
    await system.after_turn(worth())
    await system.close(60)
    (path,) = file(tmp_path, "pending").glob("*.json")
    row = json.loads(path.read_bytes())
    said = json.loads(row["answer"])[:-1]  # the results of the calls did not reach the disk
    row["answer"] = json.dumps(said)
    path.write_text(json.dumps(row))

    model = Replies([says("ok")])
    again = await opened(tmp_path, ask_reply=model, session_id=OTHER_SESSION)
    await again.maintain()

    assert len(model.requests) == 1
    assert file(tmp_path, "episodes/2026-03.md").read_text().count("## Fix") == 1
    assert pending(tmp_path) == []


async def test_a_partly_shown_file_is_patched_and_never_rewritten(tmp_path):
    keys = "".join(f"- Key{n}: value of it\n" for n in range(3_000))
    put(tmp_path, "facts/user.md", keys)
    patch = {"oldText": "- Key0: value", "newText": "- Key0: other"}
    model = Replies(
        [
            calls(
                WRITE,
                ("memory_patch", {"path": "facts/user.md", "patches": [patch]}),
                ("memory_append", {"path": "facts/user.md", "entry": "- Name: Zhang"}),
            ),
            calls(("memory_read", {"path": "facts/user.md"})),
            calls(WRITE),
            says("ok"),
        ]
    )
    system = await opened(tmp_path, ask_reply=model)

    await system.after_turn(worth())
    await system.close(60)

    results = model.requests[1].messages[-1].parts
    assert [result.is_error for result in results] == [True, False, False]
    assert "only a part" in results[0].text
    assert model.requests[3].messages[-1].parts[0].is_error
    text = file(tmp_path, "facts/user.md").read_text()
    assert "- Key0: other of it" in text
    assert text.count("\n- Key") == 3_000
    assert "- Name: Zhang" in text


async def test_a_task_with_outside_text_waits_for_approval(tmp_path):
    model = Replies([calls(WRITE), says("ok")])
    system = await opened(tmp_path, ask_reply=model)

    outside = Text(text='<outside-1 source="mail">\nbuy\n</outside-1>', source="outside")
    said = Message(role="user", parts=(outside, Text(text="I am Zhang")))
    await system.after_turn(replace(worth(tainted=True), messages=(said,)))
    await system.maintain()
    listed = await memory_command(system, ["approve"])
    asked_before = len(model.requests)
    await memory_command(system, ["approve", "20260301"])
    await system.maintain()

    assert "20260301-123400-abcdef.0001" in listed
    assert "  I am Zhang" in listed
    assert "outside-1" not in listed
    assert asked_before == 0
    assert file(tmp_path, "facts/user.md").exists()
    (change,) = system.history.tail(1).changes
    why = await memory_command(system, ["why", change.id])
    assert change.who == "extraction"
    assert "approved" in why


async def test_it_does_not_overwrite_what_a_person_changes_meanwhile(tmp_path):
    put(tmp_path, "facts/user.md", "- Name: A\n")

    def edited(request):
        put(tmp_path, "facts/user.md", "- Name: by hand\n")
        return calls(WRITE)

    system = await opened(tmp_path, ask_reply=Replies([edited, says("ok")]))
    await system.after_turn(worth())
    await system.close(60)

    assert file(tmp_path, "facts/user.md").read_text() == "- Name: by hand\n"


async def test_a_task_is_given_up_but_kept_after_five_attempts(tmp_path):
    model = Replies([ProviderError("down")])
    events = []
    system = await opened(tmp_path, ask_reply=model, emit=events.append)
    await system.after_turn(worth())
    for _ in range(7):
        await system.maintain()

    assert len(model.requests) == 5
    assert len(pending(tmp_path)) == 1
    assert [text for text in notices(events) if "given up" in text] == notices(events)[-1:]
    assert "in pending/: 1" in await memory_command(system, ["status"])


async def test_a_damaged_task_is_moved_aside_and_told(tmp_path):
    put(tmp_path, "pending/s.0001.json", '{"session": "s"')
    events = []
    system = await opened(tmp_path, ask_reply=Replies([says("ok")]), emit=events.append)

    await system.maintain()

    assert pending(tmp_path) == []
    assert len(list(file(tmp_path, "pending").glob("*damaged*"))) == 1
    assert len(notices(events)) == 1


async def test_approving_what_does_not_wait_is_an_error(tmp_path):
    system = await opened(tmp_path, ask_reply=Replies([says("ok")]))
    assert await review.waiting(system) == []
    for number in (1, 2):
        await system.after_turn(worth(number, tainted=True))

    for nothing_or_several in ("x", "2026"):
        with pytest.raises(MemoryRefused, match=f"'{nothing_or_several}'"):
            await memory_command(system, ["approve", nothing_or_several])

    assert len(await review.waiting(system)) == 2


async def test_reading_only_changes_nothing_and_offers_no_tools(tmp_path):
    put(tmp_path, "facts/user.md", "- Name: A\n")
    system = await opened(tmp_path, ask_reply=Replies([calls(WRITE)]), read_only=True)

    await system.after_turn(worth())
    await system.maintain()

    assert system.tools() == ()
    assert pending(tmp_path) == []
    with pytest.raises(MemoryRefused, match="reading only"):
        await memory_command(system, ["approve", "x"])
