"""The journal: MEMORY.md in the prompt, entries of the history, and a window that it keeps."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kode.errors import ToolError
from kode.memory.contract import Turn
from kode.memory.journal import format_entry, make_layout, place_in
from kode.memory.policy import Addition
from kode.memory.statement import Statement
from kode.memory.system import Memory
from kode.messages import Message
from tests.memory.sessions import Sessions, call


@pytest.fixture
def home(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path, system="journal", project=tmp_path)


def files(home: Sessions) -> dict[str, str]:
    paths = sorted((home.root / "memory/journal").rglob("*.md"))
    return {path.name: path.read_text() for path in paths}


async def add(memory: Memory, target: str, text: str) -> None:
    draft = memory.policy.draft(memory, Addition(target=target, text=text), memory.author("user"))
    await memory.save(draft)


def answer(narrative: str, *facts: str) -> str:
    rows = [{"fact": fact, "stated": False} for fact in facts]
    return json.dumps({"narrative": narrative, "facts": rows})


async def test_a_line_of_memory_stands_in_the_next_prompt(home: Sessions) -> None:
    memory = await home.open()
    await add(memory, "memory", "Deploys go out on Fridays")
    path = home.root / "memory" / place_in(memory.store.project, "MEMORY.md")
    assert path.read_text() == "- Deploys go out on Fridays\n"
    path.write_text("# Ours\n\n- Deploys go out on Fridays\n- Bob reviews\n")

    system = (await (await home.open("s2")).inject("start")).system

    assert "# Ours\n- Deploys go out on Fridays (2026-03-01)\n- Bob reviews (2026-03-01)" in system


@pytest.mark.parametrize(
    ("at", "month"),
    [
        (datetime(2026, 2, 28, 23, 59, 59, 999_000, tzinfo=UTC), "HISTORY-2026-02.md"),
        (datetime(2026, 3, 1, tzinfo=UTC), "HISTORY-2026-03.md"),
        (datetime.fromisoformat("2026-03-01T08:00+09:00"), "HISTORY-2026-02.md"),
    ],
)
def test_an_entry_stands_in_the_file_of_its_month(at: datetime, month: str) -> None:
    text = format_entry("Done.", at)
    note = Statement(place="journal/x/HISTORY.md", text=text, claimed_at="", who="session")
    listed = make_layout(100).files_of(note.place, note)
    assert listed == ["journal/x/HISTORY.md", f"journal/x/{month}"]


async def test_a_session_is_an_entry_and_facts_of_the_model(home: Sessions) -> None:
    home.reply = lambda prompt: answer("Renamed the parser.", "Tests need redis")
    await home.run("s1", "rename it")

    written = files(home)
    assert written["MEMORY.md"] == "- Tests need redis\n"
    assert written["HISTORY.md"] == written["HISTORY-2026-03.md"]
    assert written["HISTORY.md"].startswith("## 2026-03-01T12:00:")
    assert "\n\nRenamed the parser.\n" in written["HISTORY.md"]


async def test_no_part_of_a_session_is_summed_up_twice(home: Sessions) -> None:
    home.reply = lambda prompt: answer(f"Entry {len(home.prompts)}.")
    await home.run("s1", "first")
    await home.run("s1", "first", "second")

    assert len(home.prompts) == 2
    assert ("first" in home.prompts[0], "first" in home.prompts[1]) == (True, False)
    memory = await home.open("s2")
    texts = [note.text.partition("\n\n")[2] for note in memory.notes()]
    assert texts == ["Entry 1.", "Entry 2."]


async def test_a_turn_goes_on_after_its_beginning_was_summed_up(home: Sessions) -> None:
    home.reply = lambda prompt: answer(f"Entry {len(home.prompts)}.")
    memory = await home.open("s1")
    whole = home.record("s1", "first", "second")
    await memory.after_turn(Turn(number=1, text="first"))
    home.records["s1"] = replace(whole, messages=whole.messages[:5])

    assert (await memory.before_drop(whole.messages[:5], "window")).done
    home.records["s1"] = whole
    await memory.after_turn(Turn(number=2, text="second"))
    await memory.before_drop(whole.messages, "exit")

    assert [note.text.partition("\n\n")[2] for note in memory.notes()] == [
        "Entry 1.",
        "Entry 2.",
    ]
    assert "second" in home.prompts[0]
    assert "assistant: done" in home.prompts[1].lower()


async def test_a_full_window_keeps_the_recent_half(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"journal": {"memory_window": 4}}
    home = Sessions(tmp_path, system="journal", settings=settings, project=tmp_path)
    home.reply = lambda prompt: answer("What came before.")
    memory = await home.open("s1")
    record = home.record("s1", "one", "two", "three")
    messages: list[Message] = list(record.messages)
    await memory.after_turn(Turn(number=3, text="three", messages=tuple(messages)))

    drop = await memory.before_drop(messages, "window")

    assert (drop.recap, drop.done) == ("What came before.", True)
    assert drop.keep is not None
    kept = messages[-drop.keep :]
    assert [m.role for m in kept if m.stop != "tool"][:1] == ["user"]
    lines = (await memory.inject("compacted")).first_user
    assert "user: three\nassistant: done" in lines
    assert "user: one" not in lines


async def test_an_unreachable_model_leaves_a_raw_entry_until_it_answers(home: Sessions) -> None:
    def fail(prompt: str) -> str:
        raise ConnectionError("no network")

    home.reply = fail
    await home.run("s1", "rename it")
    assert "[raw-fallback] of session s1" in files(home)["HISTORY.md"]
    assert "user: rename it\nassistant: done" in files(home)["HISTORY.md"]

    home.reply = lambda prompt: answer("Renamed the parser.")
    later = await home.open("s2")
    await later.maintain()

    assert "raw-fallback" not in files(home)["HISTORY.md"] + files(home)["HISTORY-2026-03.md"]
    assert [n.text.partition("\n\n")[2] for n in later.notes()] == ["Renamed the parser."]


async def test_the_history_is_searched_as_grep_does(home: Sessions) -> None:
    memory = await home.open()
    await add(memory, "history", "Moved the docs to Sphinx.")
    await add(memory, "history", "Broke the build: [flaky] tests.")

    assert "Moved the docs" in await call(memory, "history_search", query="sph.nx")
    assert "flaky" in await call(memory, "history_search", query="2026-03-01", limit=1)
    assert "nearest others" in await call(memory, "history_search", query="broken builds tests")
    with pytest.raises(ToolError, match="Escape"):
        await call(memory, "history_search", query="[flaky")


async def test_an_entry_is_removed_from_both_files(home: Sessions) -> None:
    memory = await home.open()
    await add(memory, "history", "Moved the docs.")
    path = home.root / "memory" / place_in(memory.store.project, "HISTORY.md")
    path.write_text("")

    later = await home.open("s2")
    await later.maintain()

    assert files(home).get("HISTORY-2026-03.md", "") == ""
    assert later.notes() == []


async def test_a_memory_over_its_limit_is_said_in_less(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"journal": {"max_memory_size": 40}}
    home = Sessions(tmp_path, system="journal", settings=settings, project=tmp_path)
    memory = await home.open()
    for text in ("Deploys go out on Fridays", "Every Friday there is a deploy"):
        await add(memory, "memory", text)
    home.reply = lambda prompt: (
        answer("Talked.") if "rename" in prompt else json.dumps({"same": [[1, 2]]})
    )
    await home.run("s1", "rename it")

    assert len(home.prompts) == 2
    assert len(home.texts(await home.open("s2"))) == 1
