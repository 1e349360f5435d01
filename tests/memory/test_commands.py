import json

import pytest

from kode import installed
from kode.config import MemoryConfig
from kode.contracts import Hit
from kode.errors import ConfigError, MemoryRefused
from kode.memory import make_system, open_memory
from kode.memory.command_line import COMMANDS, CommandParser, add_commands
from kode.memory.commands import _ANY, _RUN, memory_command
from kode.memory.search import NEWEST
from kode.memory.tiered.facts import parse
from kode.registry import SYSTEMS
from tests.memory.life import (
    env_file,
    memory_context,
    opened,
    settings,
    use,
    user_file,
    write_facts,
)


async def test_show_tells_every_entry_with_its_origin_and_fill_level(tmp_path):
    system = await opened(tmp_path)
    await use(system, action="add", target="user", content="likes tabs")
    write_facts(env_file(tmp_path), "typed into the file")

    shown = await memory_command(system, ["show"])

    assert "likes tabs\n    (add by the model, " in shown
    assert "session 20260301-123400-abcdef" in shown
    assert "typed into the file\n    (written by hand)" in shown
    assert "user · 1% (10/1500 characters)" in shown


async def test_no_command_shows(tmp_path):
    system = await opened(tmp_path)

    assert await memory_command(system, []) == await memory_command(system, ["show"])


async def test_adding_works_without_a_model_and_is_by_the_user(tmp_path):
    events = []
    system = await opened(tmp_path, emit=events.append)

    told = await memory_command(system, ["add", "user", "likes tabs"])

    (event,) = events
    assert user_file(tmp_path).read_text() == "likes tabs"
    assert event.text == 'added to user "likes tabs"'
    assert f"kode memory undo {event.change_id}" in told
    assert "  you  add facts/user.md: likes tabs" in await memory_command(system, ["log"])


async def test_replace_and_remove_change_one_entry(tmp_path):
    write_facts(user_file(tmp_path), "one", "two", "three")
    system = await opened(tmp_path)

    await memory_command(system, ["replace", "user", "two", "zwei"])
    await memory_command(system, ["remove", "user", "one"])

    assert parse(user_file(tmp_path).read_text()) == ("zwei", "three")


async def test_a_scope_chooses_the_file(tmp_path):
    system = await opened(tmp_path)

    await memory_command(system, ["add", "env", "only here", "--scope", "project"])

    assert not env_file(tmp_path).exists()
    assert "only here" in (await system.inject("start")).system


async def test_undo_goes_back_step_by_step(tmp_path):
    system = await opened(tmp_path, config=settings(merge_on_write=False))
    for text in ("one", "two", "three"):
        await memory_command(system, ["add", "user", text])

    await memory_command(system, ["undo"])
    await memory_command(system, ["undo"])

    assert user_file(tmp_path).read_text() == "one"


async def test_undoing_what_was_changed_since_says_so_and_changes_nothing(tmp_path):
    system = await opened(tmp_path)
    told = await memory_command(system, ["add", "user", "likes tabs"])
    write_facts(user_file(tmp_path), "likes tabs a lot")

    with pytest.raises(MemoryRefused, match="no longer holds"):
        await memory_command(system, ["undo", told.split()[-1]])

    assert user_file(tmp_path).read_text() == "likes tabs a lot"


async def test_undoing_nothing_or_an_unknown_change_is_an_error(tmp_path):
    system = await opened(tmp_path)

    with pytest.raises(MemoryRefused, match="nothing to undo"):
        await memory_command(system, ["undo"])
    with pytest.raises(MemoryRefused, match="beef"):
        await memory_command(system, ["undo", "beef"])


async def test_a_removal_that_no_longer_fits_back_tells_the_sizes(tmp_path):
    config = settings(facts_limit_user=12, merge_on_write=False)
    system = await opened(tmp_path, config=config)
    await memory_command(system, ["add", "user", "0123456789"])
    told = await memory_command(system, ["remove", "user", "0123456789"])
    await memory_command(system, ["add", "user", "abcdefghij"])

    with pytest.raises(MemoryRefused, match="limit of 12"):
        await memory_command(system, ["undo", told.split()[-1]])


async def test_search_shows_scores_and_where(tmp_path):
    write_facts(user_file(tmp_path), "likes tabs", "lives in Lisbon")
    system = await opened(tmp_path)

    found = await memory_command(system, ["search", "tabs"])

    assert "[user] likes tabs" in found
    assert "Lisbon" not in found
    assert "No matching memory" in await memory_command(system, ["search", "zeppelin"])


async def test_search_says_once_that_the_model_could_not_choose(tmp_path, monkeypatch):
    write_facts(user_file(tmp_path), "likes tabs")
    system = await opened(tmp_path)

    async def newest(query, k):
        return [Hit(text="the last episode", where="episodes", score=0.0, why=NEWEST)]

    monkeypatch.setattr(system, "search", newest)
    found = await memory_command(system, ["search", "zeppelin"])

    assert "zeppelin" in found.splitlines()[0]
    assert found.count("could not choose") == 1


async def test_status_tells_the_system_fill_levels_and_what_is_pending(tmp_path):
    write_facts(user_file(tmp_path), "likes tabs")
    pending = tmp_path / "memory" / "episodes" / "pending"
    pending.mkdir(parents=True)
    id, at = "20260101-000000-abcdef", "2026-01-01T00:00:00+00:00"
    row = {"session_id": id, "turns": 3, "at": at, "transcript": "User: hello"}
    (pending / f"{id}.json").write_text(json.dumps(row))
    system = await opened(tmp_path)

    status = await memory_command(system, ["status"])

    assert "system: tiered" in status
    assert "user: 1 entry, 1% (10/1500 characters)" in status
    assert "not finished with: 1" in status


@pytest.mark.parametrize(
    "argv", [["frobnicate"], ["add", "foo", "x"], ["add", "user"], ["search"], ["undo", "a", "b"]]
)
async def test_a_command_line_that_makes_no_sense_names_the_commands(tmp_path, argv):
    system = await opened(tmp_path)

    with pytest.raises(ConfigError, match="memory"):
        await memory_command(system, argv)


async def test_a_command_works_through_the_guard_unless_memory_is_off(tmp_path):
    guarded = open_memory(MemoryConfig())
    await guarded.open(memory_context(tmp_path), {})
    off = open_memory(MemoryConfig(enabled=False))

    assert "added" in await memory_command(guarded, ["add", "user", "likes tabs"])
    with pytest.raises(MemoryRefused, match="Memory is off"):
        await memory_command(off, ["show"])


async def test_a_credential_is_refused_and_not_repeated(tmp_path):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    system = await opened(tmp_path)

    with pytest.raises(MemoryRefused, match="credential") as error:
        await memory_command(system, ["add", "user", f"the token is {secret}"])

    assert secret not in str(error.value)
    assert not user_file(tmp_path).exists()


async def test_a_credential_in_a_file_is_neither_shown_nor_recorded(tmp_path):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    write_facts(user_file(tmp_path), f"the token is {secret}")
    system = await opened(tmp_path)

    injected = (await system.inject("start")).system
    told = await memory_command(system, ["remove", "user", "the token"])

    assert secret not in injected + told
    assert secret not in (tmp_path / "memory" / "history.jsonl").read_text()
    with pytest.raises(MemoryRefused, match="cannot be undone"):
        await memory_command(system, ["undo"])


@pytest.mark.parametrize("system", SYSTEMS)
def test_both_faces_have_the_commands_of_the_system(system):
    parser = CommandParser(prog="/memory")
    added = add_commands(parser, system)

    names = {one.prog.removeprefix("/memory ") for one in added}

    plugged = installed.subcommands("memory", system)
    assert names == {one.name for one in COMMANDS if one.is_of(system)} | set(plugged)
    verbs = make_system(MemoryConfig(system=system)).verbs()
    assert names <= {*_RUN, *_ANY, *verbs, *plugged}
    assert ("team" in names) == (system == "notes")
    assert ("consolidate" in names) == (system == "tiered")
