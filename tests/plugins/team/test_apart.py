"""Rows of another team, and of a project that is not theirs, are never seen: whatever is asked."""

import json
from pathlib import Path

import psycopg
import pytest

from kode.errors import MemoryRefused
from kode.plugins.team.address import Address
from kode.plugins.team.command import manage
from kode.plugins.team.server import open_server
from tests.memory.life import notices
from tests.memory.notes.life import keep
from tests.plugins.team.life import everything_of, exchange, texts

pytestmark = pytest.mark.slow

STATEMENTS = [
    json.loads(line)["sql"]
    for line in (Path(__file__).parent / "data" / "other_team.jsonl").read_text().splitlines()
]


async def test_no_statement_shows_a_row_of_another_team(team):
    await team.prepare("eve", scope="project:other")
    rivals = Address(team.url("owner"), "rivals", "h")
    async with open_server(rivals) as server:
        await server.admit("eve", "*")
    ada, eve = await team.opened("ada"), await team.opened("eve", name="rivals")
    (note,) = await keep(ada, "the zebra stands in the cellar")
    await keep(eve, "what the rivals know")
    await exchange(ada, eve)

    shown = []
    for statement in STATEMENTS:
        with psycopg.connect(team.url("eve"), autocommit=True) as connection:
            found = everything_of(connection, statement)
            marks = ("cellar", "adas-", note.id)
            shown += [(statement, one) for one in found if any(mark in one for mark in marks)]

    assert shown == []
    assert len(STATEMENTS) >= 50
    with psycopg.connect(team.url("eve")) as connection:
        seen = connection.execute("SELECT note ->> 'content' FROM kode.notes").fetchall()
    assert seen == [("what the rivals know",)]
    with psycopg.connect(team.url("owner")) as connection:
        stands = connection.execute(
            "SELECT team, note ->> 'content' FROM kode.notes WHERE NOT gone ORDER BY 1"
        ).fetchall()
        changes = connection.execute("SELECT count(*) FROM kode.changes").fetchall()
    assert stands == [
        ("platform", "the zebra stands in the cellar"),
        ("rivals", "what the rivals know"),
    ]
    assert changes == [(2,)]


async def test_a_member_of_one_project_sees_only_that_project(team):
    await team.prepare("eve", scope="project:example.org/api")
    places = {}
    for name in ("api", "web"):
        root = places[name] = team.root / name
        (root / ".git").mkdir(parents=True)
        url = f"git@example.org:{name}.git"
        (root / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {url}\n')

    async def opened(person, name):
        return await team.opened(person, cwd=places[name], project_root=places[name])

    ada = {name: await opened("ada", name) for name in places}
    for name in places:
        await keep(ada[name], f"of {name}", in_project=True)
        await exchange(ada[name])
    await keep(ada["api"], "of all the team")
    await exchange(ada["api"])

    assert texts(await opened("eve", "web")) == set()
    assert texts(await opened("eve", "api")) == {"of api"}
    assert texts(await opened("bob", "web")) == {"of web", "of all the team"}


async def test_a_note_one_may_not_send_stays_and_is_retried(team):
    events = []
    await team.prepare("eve", scope="project:example.org/api")
    eve = await team.opened("eve", emit=events.append)
    await keep(eve, "for the whole team")

    await exchange(eve)

    assert len(notices(events)) == 1
    assert texts(eve) == {"for the whole team"}
    await team.prepare("eve")
    await exchange(eve)
    assert texts(await team.opened("bob")) == {"for the whole team"}


async def test_a_dismissed_member_keeps_only_their_unsent_notes(team):
    ada, bob = await team.opened("ada"), await team.opened("bob")
    await keep(ada, "the zebra stands in the cellar")
    await exchange(ada, bob)
    events = []
    bob.team._emit = events.append
    owner = Address(team.url("owner"), team.name, "h")

    said = await manage(owner, "dismiss", "bob", None, Path("/"))
    await keep(bob, "written after that")
    await exchange(bob)

    assert "bob sees all of" in said
    assert texts(bob) == {"written after that"}
    assert any("bob" in text and "'platform'" in text for text in notices(events))


async def test_a_database_without_tables_says_who_makes_them(team):
    team.server.make_database(f"{team.database}-empty")
    empty = Address(team.server.url("ada", f"{team.database}-empty"), team.name, "h")

    with pytest.raises(MemoryRefused, match="kode memory team init"):
        await manage(empty, None, None, None, Path("/"))


async def test_the_changes_only_grow_even_for_who_owns_them(team):
    ada = await team.opened("ada")
    await keep(ada, "the zebra stands in the cellar")
    await exchange(ada)

    for statement in ("UPDATE kode.changes SET person = 'bob'", "DELETE FROM kode.changes"):
        with psycopg.connect(team.url("owner")) as connection:
            with pytest.raises(psycopg.errors.RaiseException, match="only grow"):
                connection.execute(statement)
