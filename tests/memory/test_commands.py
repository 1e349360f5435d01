"""What a person can do with memory, in every system."""

import json
from pathlib import Path

import pytest

from kode.errors import ConfigError, MemoryRefused
from kode.memory.commands import COMMANDS, memory_command, run_line
from kode.memory.review import decide_item, list_waiting
from kode.memory.system import Memory
from tests.memory.sessions import Sessions, call
from tests.memory.systems import TARGETS


async def _add(home: Sessions, memory: Memory, text: str) -> str:
    """The id of a fact that the person adds."""
    outcome = await run_line(memory, ["add", TARGETS[home.system], text])
    assert outcome.statement
    return outcome.statement.id


async def test_an_entry_is_shown_edited_forgotten_and_brought_back(home: Sessions) -> None:
    memory = await home.open(None)
    id = await _add(home, memory, "Likes tea")
    shown = await memory_command(memory, ["show"])
    assert id in shown
    assert "Likes tea" in shown
    changed = await run_line(memory, ["edit", id, "Likes coffee"])
    assert (await memory.search("coffee", 5))[0].match == "exact"
    await run_line(memory, ["forget", "coffee"])
    assert "coffee" not in await memory_command(memory, ["show"])
    await run_line(memory, ["undo"])
    assert "coffee" in await memory_command(memory, ["show"])
    assert changed.change
    why = await memory_command(memory, ["why", "coffee"])
    assert "Likes tea" in why
    listed = await memory_command(memory, ["log"])
    assert "Likes tea → Likes coffee" in listed
    assert listed.count("undone by") == 1


async def test_a_note_on_a_session_is_forgotten_and_comes_back(home: Sessions) -> None:
    await home.run("s1", "fix the parser")
    memory = await home.open(None)
    [note] = memory.notes()

    def is_on_disk() -> bool:
        paths = (home.root / "memory").rglob("*.md")
        return any("fix the parser" in path.read_text() for path in paths)

    for words, is_there in (["forget", note.id], False), (["undo"], True):
        await run_line(memory, words)
        assert bool(memory.notes()) is is_there
        assert is_on_disk() is (is_there and home.system != "notes")
        assert bool(await memory.search("parser", 1)) is is_there
    await run_line(memory, ["edit", note.id, "We fixed the lexer"])
    assert "lexer" in memory.notes()[0].text


async def test_the_ids_of_several_matches_are_listed(home: Sessions) -> None:
    memory = await home.open(None)
    ids = [await _add(home, memory, text) for text in ("Likes tea", "Likes tart")]
    with pytest.raises(MemoryRefused) as refused:
        await run_line(memory, ["forget", "Likes"])
    assert all(id in str(refused.value) for id in ids)
    with pytest.raises(MemoryRefused, match="No entry contains"):
        await run_line(memory, ["forget", "wine"])
    with pytest.raises(ConfigError, match="quotation marks"):
        await run_line(memory, ["edit", "a", "b", "c", "d"])


async def test_a_scope_tells_equal_entries_apart(tmp_path: Path) -> None:
    home = Sessions(tmp_path, project=tmp_path)
    memory = await home.open(None)
    for scope in ("global", "project"):
        await run_line(memory, ["add", "env", "Port 80", "--scope", scope])
    await run_line(memory, ["replace", "env", "Port 80", "Port 81", "--scope", "global"])
    await run_line(memory, ["remove", "env", "Port", "--scope", "project"])
    assert home.texts(memory) == ["Port 81"]


async def test_an_erased_entry_is_nowhere(home: Sessions) -> None:
    memory = await home.open(None)
    id = await _add(home, memory, "Salary 12345")
    await run_line(memory, ["forget", id, "--erase"])
    files = [path for path in (home.root / "memory").rglob("*") if path.is_file()]
    assert not [path for path in files if b"12345" in path.read_bytes()]


async def test_one_choice_decides_what_waits(home: Sessions) -> None:
    memory = await home.open(None)
    first = await _add(home, memory, "Port 80")
    await memory.store.edit(first, "Port 81", memory.author())
    [item] = await list_waiting(memory)
    assert (item.reason, list(item.choices)) == ("conflict", ["first", "second", "both"])
    await decide_item(memory, item.id, "second")
    assert await list_waiting(memory) == []
    shown = await memory_command(memory, ["show"])
    assert "Port 81" in shown
    assert "Port 80" not in shown
    assert "kode memory review" not in await memory_command(memory, ["status"])


async def test_an_expired_fact_is_confirmed_or_removed(tmp_path: Path) -> None:
    home = Sessions(tmp_path)
    memory = await home.open(None)
    await run_line(memory, ["add", "env", "Freeze", "--until", "2026-02-01"])
    assert memory.visible_facts() == []
    [item] = await list_waiting(memory)
    assert item.reason == "no longer true"
    why = await memory_command(memory, ["why", "Freeze"])
    assert ("holds until 2026-02-01" in why, "holds since" in why) == (True, False)
    await decide_item(memory, item.id, "confirm")
    assert [fact.text for fact in memory.visible_facts()] == ["Freeze"]


async def test_a_file_of_code_that_changed_makes_a_fact_doubtful(tmp_path: Path) -> None:
    home = Sessions(tmp_path)
    (tmp_path / "app.py").write_text("PORT = 80\n")
    memory = await home.open()
    await call(memory, "memory", action="add", target="env", content="Port 80", source="app.py:1")
    assert "read in code app.py:1" in (await memory.inject("start")).system
    (tmp_path / "app.py").write_text("PORT = 81\n")
    assert "may be stale: app.py:1 changed" in (await memory.inject("start")).system
    assert "changed since" in await memory_command(memory, ["why", "Port 80"])
    [item] = await list_waiting(memory)
    await decide_item(memory, item.id, "confirm")
    assert "may be stale" not in (await memory.inject("start")).system


async def test_help_lists_the_commands_of_the_system(home: Sessions) -> None:
    memory = await home.open(None)
    listed = await memory_command(memory, ["help"])
    names = {command.name for command in COMMANDS if command.is_of(memory.name)}
    assert ("archive" in listed) == ("archive" in names)
    for name in names:
        assert name in listed
        assert f"/memory {name}" in await memory_command(memory, [name, "--help"])
    with pytest.raises(ConfigError, match="forget"):
        await run_line(memory, ["forgte"])


async def test_an_export_is_the_same_memory_elsewhere(home: Sessions, tmp_path: Path) -> None:
    memory = await home.open(None)
    await _add(home, memory, "Likes tea")
    await run_line(memory, ["edit", "tea", "Likes coffee"])
    await _add(home, memory, "Port 80")
    await home.run("s1", "fix the parser")
    export = tmp_path / "export.jsonl"
    await run_line(memory, ["export", str(export)])

    other = Sessions(tmp_path / "other", system=home.system)
    (tmp_path / "other").mkdir()
    there = await other.open(None)
    hash = memory.store.project.hash
    await run_line(there, ["import", str(export), "--mine", f"--project={hash}={other.root}"])

    def values(memory: Memory) -> list[tuple[str, ...]]:
        view = memory.store.view()
        return [
            (old.id, old.text, old.who, old.claimed_at, str(entry.is_alive), *old.replaces)
            for entry in view.entries.values()
            for old in [entry.statement]
        ]

    assert values(there) == values(memory)
    assert other.texts(there) == home.texts(memory)
    assert "fix the parser" in (await there.search("parser", 1))[0].text
    again = await memory_command(there, ["import", str(export), "--mine"])
    assert again.startswith("0 entries new")
    assert await (await other.open(None)).store.reconcile() == []


async def test_the_export_of_somebody_else_waits(home: Sessions, tmp_path: Path) -> None:
    memory = await home.open(None)
    await _add(home, memory, "Likes tea")
    export = tmp_path / "export.jsonl"
    await run_line(memory, ["export", str(export)])
    rows = export.read_text().splitlines()
    poison = json.loads(rows[1])
    poison["id"] = "0123456789ab"
    poison["add"][0] |= {"id": "s0123456789", "place": "../../evil.md"}
    export.write_text("\n".join([*rows, json.dumps(poison), "no json"]))

    other = Sessions(tmp_path / "other", system=home.system)
    other.root.mkdir()
    there = await other.open(None)
    hash = memory.store.project.hash
    said = await memory_command(there, ["import", str(export), f"--project={hash}={other.root}"])
    assert "of this memory" in said
    assert "line 4" in said
    assert other.texts(there) == []
    [waiting] = there.store.view().find_waiting()
    assert (waiting.text.removeprefix("- "), waiting.who) == ("Likes tea", "import")
    await run_line(there, ["approve", waiting.id])
    assert len(other.texts(there)) == 1


async def test_a_project_that_is_not_clear_is_asked_for(tmp_path: Path) -> None:
    export = tmp_path / "export.jsonl"
    homes = [Sessions(tmp_path, project=tmp_path / name) for name in ("one", "two")]
    for home in homes:
        assert home.project
        home.project.mkdir()
        memory = await home.open(None)
        await run_line(memory, ["add", "env", f"Port of {home.project.name}"])
    await run_line(memory, ["export", str(export)])
    rows = export.read_text().replace(str(tmp_path), "/nowhere")
    export.write_text(rows)
    other = Sessions(tmp_path / "other", project=tmp_path / "other")
    (tmp_path / "other").mkdir()
    there = await other.open(None)
    with pytest.raises(MemoryRefused, match="--project"):
        await run_line(there, ["import", str(export), "--mine"])
    hashes = [memory.store.project.hash for memory in [await home.open(None) for home in homes]]
    pairs = [f"--project={hash}={tmp_path / 'other'}" for hash in hashes]
    await run_line(there, ["import", str(export), "--mine", *pairs])
    assert sorted(other.texts(there)) == ["Port of one", "Port of two"]
