"""`kode memory review`: what waits for a person's judgment."""

import pytest

from kode.memory.commands import memory_command
from kode.memory.review import NOTHING_WAITS
from tests.memory.journal import life as journal_life
from tests.memory.life import opened, use, user_file, write_facts
from tests.memory.notes import life as notes_life
from tests.memory.vault import life as vault_life


async def test_an_unjudged_pair_is_shown_with_both_origins(tmp_path):
    system = await opened(tmp_path)
    await memory_command(system, ["add", "user", "the server listens on port 80"])
    await use(system, action="add", target="user", content="the server listens on port 81")

    told = await memory_command(system, ["review"])

    old, new = told.index("on port 80"), told.index("on port 81")
    assert "by you" in told[old:new]
    assert "by the model" in told[new:]


async def test_a_pair_of_which_one_has_gone_waits_no_more(tmp_path):
    system = await opened(tmp_path)
    await memory_command(system, ["add", "user", "the server listens on port 80"])
    await memory_command(system, ["add", "user", "the server listens on port 81"])
    write_facts(user_file(tmp_path), "the server listens on port 81")

    assert "port" not in await memory_command(system, ["review"])


async def test_stale_and_expired_entries_are_listed_and_counted(tmp_path):
    (tmp_path / "app.py").write_text("port = 80")
    system = await opened(tmp_path)
    await use(system, action="add", target="user", content="the port is 80", source="app.py:1")
    await memory_command(system, ["add", "user", "away", "--until", "2020-03-06"])
    assert "stale, or expired: 1" in await memory_command(system, ["status"])
    (tmp_path / "app.py").write_text("port = 81")

    told = await memory_command(system, ["review"])

    stale, expired = told.index('"the port is 80"'), told.index('"away"')
    assert "app.py:1 changed: add " in told[stale:expired]
    assert "stale, or expired: 2" in await memory_command(system, ["status"])

    undo = [line for line in told[stale:expired].splitlines() if "undo with" in line]
    await memory_command(system, ["undo", undo[0].split()[-1]])
    assert "the port" not in await memory_command(system, ["review"])


@pytest.mark.parametrize(
    "life", [opened, vault_life.opened, journal_life.opened, notes_life.opened]
)
async def test_where_nothing_waits_it_says_so(tmp_path, life):
    system = await life(tmp_path)

    assert await memory_command(system, ["review"]) == NOTHING_WAITS
    assert "stale" not in await memory_command(system, ["status"])


async def test_a_waiting_note_is_listed_with_how_to_approve_it(tmp_path):
    system = await notes_life.opened(tmp_path)
    (note,) = await notes_life.keep(system, "from outside", untrusted="waits")

    told = await memory_command(system, ["review"])

    assert "`kode memory approve ID" in told
    assert note.id in told


async def test_stale_notes_and_stale_vault_lines_are_listed(tmp_path):
    (tmp_path / "app.py").write_text("port = 80")
    notes, vault = await notes_life.opened(tmp_path), await vault_life.opened(tmp_path)
    await notes_life.use(notes, "remember", content="the port is 80", source="app.py:1")
    await vault_life.use(
        vault, "memory_append", path="facts/app.md", entry="- port: 80", source="app.py:1"
    )
    (tmp_path / "app.py").write_text("port = 81")

    assert '"the port is 80"  ·  notes' in await memory_command(notes, ["review"])
    assert '"- port: 80"  ·  vault/' in await memory_command(vault, ["review"])
