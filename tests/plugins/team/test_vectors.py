"""Vectors of a neural model: shared where the server has pgvector, each member's own where not."""

import asyncio
import json

import psycopg
import pytest

from kode.config import Embedding
from kode.memory import index
from kode.memory.notes import search as note_search
from kode.memory.notes.store import Wanted
from kode.plugins.team import vectors as team_vectors
from kode.plugins.team.address import Address
from kode.plugins.team.command import manage
from kode.plugins.team.server import Server, open_server
from tests.memory.life import notices
from tests.memory.notes.life import keep, opened, use
from tests.memory.notes.test_system import with_embedder
from tests.needs import lacking
from tests.plugins.team.life import DIMS, MEANINGS, Model, exchange, texts, using
from tests.scripted_server import ScriptedServer

pytestmark = pytest.mark.slow


async def found(system, query):
    hits = await system.find(query, Wanted(limit=10))
    return [note.content for _, note in hits]


def rows(team, sql="SELECT id FROM kode.vectors", person="owner"):
    with psycopg.connect(team.url(person), autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def has_pgvector(team):
    if not rows(team, "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        lacking("pgvector", "apt install postgresql-15-pgvector")


@pytest.fixture
async def shared(team, has_pgvector):
    """Ada and Bob, whose notes say four things; Ada has made their vectors, Bob none."""
    ada, bob = [using(await team.opened(name), Model()) for name in ("ada", "bob")]
    await keep(ada, "the automobile is red", "cheese is yellow", "snow in May", "a bug is open")
    await exchange(ada, bob)
    await ada.vectors.make_missing()
    return ada, bob


@pytest.mark.parametrize("is_asked", [False, True])
async def test_a_search_finds_the_same_with_or_without_pgvector(team, is_asked):
    ada, bob = [using(await team.opened(name), Model()) for name in ("ada", "bob")]
    said = [
        f"{word} {n} is noted" for n in range(10) for words in MEANINGS for word in words.split()
    ]
    await keep(ada, *said)
    await exchange(ada, bob)
    while await ada.vectors.make_missing():
        pass
    if not is_asked:
        while await bob.vectors.make_missing():
            pass
    root = team.root / "alone"
    root.mkdir()
    alone = with_embedder(await opened(root, clock=team.clock), Model())
    await keep(alone, *said)
    while await alone.vectors.make_missing():
        pass
    if is_asked and not (await _membership(team)).has_vectors:
        lacking("pgvector", "apt install postgresql-15-pgvector")

    for query in ("a vehicle to drive", "what do we eat", "weather", "unknown", "parser 3"):
        assert set(await found(bob, query)) == set(await found(alone, query))


async def _membership(team, person="ada"):
    async with open_server(Address(team.url(person), team.name, "h")) as server:
        return await server.membership()


async def test_members_take_over_vectors_but_for_one_to_compare(shared):
    _, bob = shared

    await bob.vectors.make_missing()

    compared, own = bob.vectors._embedder.texts
    assert compared in texts(bob)
    assert own.startswith("I am kode")
    assert await found(bob, "drive") == ["the automobile is red"]


async def test_a_copy_that_has_all_vectors_asks_nobody(shared, monkeypatch):
    _, bob = shared
    asked = []

    async def nearest(*_):
        asked.append(1)
        return {}

    monkeypatch.setattr(Server, "nearest", nearest)
    await found(bob, "drive")
    assert len(asked) == 1
    await bob.vectors.make_missing()

    await found(bob, "drive")

    assert len(asked) == 1


async def test_members_with_separate_embedding_servers_embed_each_note_once(team, has_pgvector):
    asked = {}
    with ScriptedServer([]) as of_ada, ScriptedServer([]) as of_bob:
        people = {"ada": of_ada, "bob": of_bob}
        systems = {}
        for name, server in people.items():
            embedding = Embedding(provider="openai", base_url=server.openai_url, model="small")
            config = team.config(name).model_copy(update={"embedding": embedding})
            (team.root / name).mkdir()
            systems[name] = await opened(team.root / name, clock=team.clock, config=config)
        await keep(systems["ada"], "the automobile is red", "cheese is yellow")
        await exchange(*systems.values())
        for name, system in systems.items():
            await system.maintain()
            asked[name] = [text for one in people[name].requests for text in one.json["input"]]
        missing = [system.vectors.count_missing() for system in systems.values()]
        hits = await found(systems["bob"], "which automobile")

    assert "the automobile is red" in asked["ada"]
    # To learn how long a vector is; one to compare, if that is another; who kode is for him.
    assert len(asked["bob"]) in (2, 3)
    assert missing == [0, 0]
    assert hits == ["the automobile is red"]


async def test_a_tools_note_comes_with_its_vector(shared, team):
    ada, _ = shared

    await use(ada, "remember", content="rain in June")
    await asyncio.gather(*ada._work._tasks)

    (note,) = ada.store.get(Wanted(limit=1))
    assert (note.id,) in rows(team)


async def test_a_copy_larger_than_it_measures_finds_old_notes(shared, monkeypatch):
    _, bob = shared
    while await bob.vectors.make_missing():
        pass
    assert await found(bob, "drive") == ["the automobile is red"]
    for module in (index, note_search):
        monkeypatch.setattr(module, "MEASURED", 2)

    assert await found(bob, "drive") == ["the automobile is red"]
    monkeypatch.setattr(note_search, "MEASURED", 20)
    assert await found(bob, "drive") == []  # which it would not, by itself


async def test_concurrent_sending_and_forgetting_leaves_no_orphaned_vector(team, has_pgvector):
    people = [using(await team.opened(name), Model()) for name in ("ada", "bob")]
    notes = await keep(people[0], *(f"{word} {n}" for n in range(25) for word in ("car", "rain")))
    await exchange(*people)

    async def forget():
        for note in notes[::2]:
            await people[1].writer.forget(note.id)
            await exchange(people[1])

    await asyncio.gather(forget(), *(one.vectors.make_missing() for one in people))

    assert {id for (id,) in rows(team)} <= {note.id for note in notes[1::2]}
    await people[0].vectors.make_missing()
    assert {id for (id,) in rows(team)} == {note.id for note in notes[1::2]}


async def test_a_copy_without_vectors_finds_what_the_server_has(shared):
    _, bob = shared

    assert await found(bob, "drive") == ["the automobile is red"]
    assert bob.vectors._embedder.texts == ["drive"]


async def test_vectors_made_before_pgvector_are_sent_later(team, has_pgvector):
    rows(team, "DROP TABLE kode.vectors, kode.spaces")
    ada, bob = [using(await team.opened(name), Model()) for name in ("ada", "bob")]
    await keep(ada, "the lion sleeps")
    (note,) = await keep(ada, "the automobile is blue")
    await exchange(ada)
    await ada.writer.update(note.id, "the automobile is red")
    await exchange(ada, bob)
    await ada.vectors.make_missing()
    assert texts(bob) == {"the lion sleeps", "the automobile is red"}
    assert not (await _membership(team)).has_vectors
    assert await found(bob, "drive") == []

    said = await manage(Address(team.url("owner"), team.name, "h"), "init", None, None, team.root)
    ada = using(await team.opened("ada"), Model())
    await ada.vectors.make_missing()

    assert "pgvector" in said
    assert "pgvector: yes" in str(await ada.figures())
    bob = using(await team.opened("bob"), Model())
    assert await found(bob, "drive") == ["the automobile is red"]


async def test_a_team_works_and_is_told_when_pgvector_is_denied(team, has_pgvector):
    name = f"{team.database}-of-ada"
    team.server.make_database(name)
    rows(team, f'ALTER DATABASE "{name}" OWNER TO ada')
    address = Address(team.server.url("ada", name), team.name, "h")

    said = await manage(address, "init", None, None, team.root)
    members = await manage(address, None, None, None, team.root)
    with psycopg.connect(team.server.url("owner", name), autocommit=True) as administrator:
        administrator.execute("CREATE SCHEMA elsewhere")
        administrator.execute("CREATE EXTENSION vector SCHEMA elsewhere")
        closed = await manage(address, "init", None, None, team.root)
        administrator.execute("GRANT USAGE ON SCHEMA elsewhere TO PUBLIC")
    again = await manage(address, "init", None, None, team.root)

    assert "permission denied" in said
    assert "CREATE EXTENSION vector" in said
    assert "pgvector: not when" in members
    assert "permission denied for schema elsewhere" in closed
    assert "permission denied" not in again
    async with open_server(address) as server:
        assert await server.nearest("small", "[1,0]", None, 5) == {}


async def test_a_forgotten_or_changed_note_has_no_vector(shared, team):
    ada, bob = shared
    car, cheese, snow, _ = sorted(ada.store.everything(), key=lambda note: note.created_at)[-4:]
    before = dict(rows(team, "SELECT id, digest FROM kode.vectors"))
    await ada.writer.forget(car.id)
    await ada.writer.update(cheese.id, "cheese is blue")
    await exchange(ada)

    after = dict(rows(team, "SELECT id, digest FROM kode.vectors"))

    assert before.keys() - after.keys() == {car.id, cheese.id}
    assert snow.id in after
    await exchange(bob)
    assert await found(bob, "drive") == []
    await ada.vectors.make_missing()
    assert await found(bob, "eat") == ["cheese is blue"]
    assert len(rows(team)) == 3


async def test_a_waiting_note_is_not_found_and_keeps_its_vector(shared, team):
    ada, bob = shared
    (note,) = await keep(ada, "drive on the left", untrusted="waits")
    await exchange(ada, bob)
    await ada.vectors.make_missing()
    assert (note.id,) in rows(team)
    assert "drive on the left" not in await found(bob, "automobile")

    await bob.writer.approve(note.id)
    await exchange(bob)

    assert (note.id,) in rows(team)
    assert "drive on the left" in await found(bob, "automobile")


async def test_a_private_note_has_no_vector_on_the_server(shared, team):
    ada, _ = shared
    before = rows(team)
    await keep(ada, "my salary", sensitivity="sensitive")
    await keep(ada, "what I did", kind="summary", job_id="s#1")
    await exchange(ada)

    await ada.vectors.make_missing()

    assert rows(team) == before


async def test_vectors_of_another_model_or_length_are_not_used(shared, team):
    _, bob = shared
    for model in (Model("large"), Model("small/24", dims=24)):
        other = using(bob, model)

        assert await found(other, "drive") == []
        await other.vectors.make_missing()

        assert [text for text in model.texts if "automobile" in text] != []
        assert await found(other, "drive") == ["the automobile is red"]
    assert len(rows(team, "SELECT space FROM kode.spaces")) == 3


@pytest.mark.parametrize(
    "vector", ["[NaN" + ",0" * (DIMS - 1) + "]", "[1,2,3]", "[" + ",".join(["0"] * DIMS) + "]", "x"]
)
async def test_a_malformed_vector_is_refused(shared, team, vector):
    ada, _ = shared
    (note,) = await keep(ada, "the cellar is dry")
    await exchange(ada)
    digest = team_vectors._digest(note.content)
    one = json.dumps([{"id": note.id, "digest": digest, "vector": vector}])

    with psycopg.connect(team.url("bob"), autocommit=True) as connection:
        with pytest.raises(psycopg.Error):
            connection.execute(
                "SELECT kode.keep_vectors(%s, 'small', %s, %s)", (team.name, DIMS, one)
            )


async def test_vectors_from_another_model_are_not_taken(shared, team):
    _, bob = shared
    events = []
    bob.vectors._shared._notice = events.append
    rows(team, f"UPDATE kode.vectors SET embedding = '{[1.0] * DIMS}'")

    await bob.vectors.make_missing()

    (said,) = events
    assert "ada sent for 'small'" in said
    assert {"the automobile is red", "cheese is yellow"} < set(bob.vectors._embedder.texts)
    assert await found(bob, "drive") == ["the automobile is red"]


async def test_nobody_replaces_a_vector_or_gives_it_another_text(shared, team):
    ada, _ = shared
    note = ada.store.get(Wanted(limit=1))[0]
    before = rows(team, "SELECT id, embedding::text, person FROM kode.vectors ORDER BY id")
    good = team_vectors._digest(note.content)
    other = [1.0] * DIMS
    with psycopg.connect(team.url("bob"), autocommit=True) as connection:
        for id, digest in ((note.id, good), (note.id, "another"), ("f" * 16, good)):
            one = json.dumps([{"id": id, "digest": digest, "vector": str(other)}])
            connection.execute(
                "SELECT kode.keep_vectors(%s, 'small', %s, %s)", (team.name, DIMS, one)
            )
        for statement in ("DELETE FROM kode.vectors", "UPDATE kode.vectors SET person = 'x'"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)

    assert rows(team, "SELECT id, embedding::text, person FROM kode.vectors ORDER BY id") == before


async def test_a_member_of_one_project_sees_only_its_vectors(shared, team):
    await team.prepare("eve", scope="project:other")

    async with open_server(Address(team.url("eve"), team.name, "h")) as server:
        near = await server.nearest("small", str([1.0] * DIMS), None, 50)
        lacking = await server.lacking("large", DIMS, "", 50)

    assert (near, lacking, rows(team, person="eve")) == ({}, [], [])
    assert len(rows(team, person="bob")) == 4


async def test_a_search_ends_without_a_server_that_does_not_answer(shared, monkeypatch):
    _, bob = shared
    asked = []

    async def never(*_):
        asked.append(1)
        await asyncio.Event().wait()

    monkeypatch.setattr(Server, "nearest", never)

    assert await found(bob, "cheese") == ["cheese is yellow"]
    assert await found(bob, "cheese") == ["cheese is yellow"]
    assert len(asked) == 1  # then it is left alone


async def test_a_search_during_an_outage_ranks_the_local_notes(shared, team):
    _, bob = shared
    await bob.vectors.make_missing()
    await keep(bob, "another car")
    team.server.stop()
    try:
        assert await found(bob, "drive") == ["the automobile is red"]
        await bob.vectors.make_missing()
        assert set(await found(bob, "drive")) == {"the automobile is red", "another car"}
    finally:
        team.server.start()
    bob = using(await team.opened("bob"), Model())
    await exchange(bob)

    await bob.vectors.make_missing()

    assert len(rows(team)) == 5


async def test_a_member_whose_embedding_fails_sends_no_vectors(shared, team):
    ada, bob = shared
    bob.vectors._embedder.fails = True
    await bob.vectors.make_missing()

    assert await found(bob, "cheese") == ["cheese is yellow"]
    assert texts(bob) == texts(ada)
    assert len(rows(team)) == 4


async def test_a_dropped_extension_is_reported_once_and_stops_nothing(shared, team):
    events = []
    ada, bob = shared
    bob.team._emit = events.append
    rows(team, "DROP EXTENSION vector CASCADE")

    assert await found(bob, "cheese") == ["cheese is yellow"]
    await bob.vectors.make_missing()
    await keep(ada, "written after that")
    await exchange(ada, bob)

    assert await found(bob, "drive") == ["the automobile is red"]
    assert "written after that" in texts(bob)
    assert len([text for text in notices(events) if "not shared" in text]) == 1
