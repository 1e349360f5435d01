"""The file: its modes, damage, two processes, and what may be missing."""

import asyncio
import contextlib
import multiprocessing
import os
import shutil
import signal
import stat
import sys
from string import ascii_lowercase

import numpy as np
import pytest

from kode.errors import MemoryRefused
from kode.memory import index, terms
from kode.memory.notes import database
from kode.memory.notes.database import Database
from kode.memory.notes.store import Wanted
from tests.memory.life import notices
from tests.memory.notes.life import active, contents, keep, opened
from tests.memory.notes.test_system import with_embedder


async def test_the_file_is_private(tmp_path):
    system = await opened(tmp_path)
    await keep(system, "likes tabs")

    folder = tmp_path / "memory" / "notes"
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "notes.db")]
    assert modes == [0o700, 0o600]


async def test_a_commit_is_synced_and_leaves_one_file(tmp_path):
    system = await opened(tmp_path)
    await keep(system, "likes tabs")

    assert system.database.value("PRAGMA synchronous") == 3
    assert system.database.value("PRAGMA journal_mode") == "delete"
    names = sorted(path.name for path in (tmp_path / "memory" / "notes").iterdir())
    assert names == [".lock", "notes.db"]


async def test_a_reader_does_not_see_an_interrupted_transaction(tmp_path):
    system = await opened(tmp_path)
    await keep(system, *(f"note number {n} {'x' * 3000}" for n in range(20)))
    written = system.database
    with contextlib.suppress(KeyboardInterrupt), written.transaction():
        written.rows("PRAGMA cache_size = 1")  # so that pages reach the file before the end
        written.rows("UPDATE memory_notes SET content = content || 'y'")
        shutil.copytree(written.path.parent, tmp_path / "cut" / "memory" / "notes")
        raise KeyboardInterrupt
    cut = tmp_path / "cut" / "memory" / "notes"
    before = {path.name: path.read_bytes() for path in cut.iterdir()}

    reader = await opened(tmp_path / "cut", read_only=True)

    assert set(contents(active(reader))) == set(contents(active(system)))
    assert (await reader.search("note number 7", 1))[0].text.startswith("note number 7")
    assert {path.name: path.read_bytes() for path in cut.iterdir()} == before
    assert "notes.db-journal" in before


def overwritten_in_the_middle(data):
    return data[:4096] + b"\xaa" * (len(data) - 4096)


@pytest.mark.parametrize(
    "damaged", [lambda data: b"this is no database" * 300, overwritten_in_the_middle]
)
async def test_a_damaged_file_is_set_aside_and_reported(tmp_path, damaged):
    first = await opened(tmp_path)
    await keep(first, *(f"note number {n}" for n in range(50)))
    await first.close(1)
    path = first.database.path
    spoiled = damaged(path.read_bytes())
    path.write_bytes(spoiled)
    events = []

    system = await opened(tmp_path, emit=events.append)
    await keep(system, "a new beginning")

    (told,) = notices(events)
    (aside,) = path.parent.glob("notes.db.damaged-*")
    assert str(aside) in told
    assert aside.read_bytes() == spoiled
    assert contents(active(system)) == ["a new beginning"]


async def test_late_damage_is_reported_and_the_next_open_begins_anew(tmp_path, monkeypatch):
    first = await opened(tmp_path)
    await keep(first, *(f"note number {n}" for n in range(50)))
    await first.close(1)
    path = first.database.path
    path.write_bytes(overwritten_in_the_middle(path.read_bytes()))
    monkeypatch.setattr(database, "WHOLE_CHECK_BYTES", 0)
    monkeypatch.setattr(Database, "_prepared", lambda self, connection: connection)
    events = []
    damaged = Database(path, read_only=False, notice=events.append)

    with pytest.raises(MemoryRefused, match="damaged"), damaged.transaction():
        damaged.rows("INSERT INTO memory_notes (id) VALUES ('x')")
    monkeypatch.undo()
    system = await opened(tmp_path)

    assert len(events) == 1
    assert len(list(path.parent.glob("notes.db.damaged-*"))) == 1
    assert contents(active(system, "soul")) != []


async def test_a_damaged_file_is_left_alone_by_who_only_reads(tmp_path):
    path = tmp_path / "memory" / "notes" / "notes.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database" * 300)

    system = await opened(tmp_path, read_only=True)
    with pytest.raises(MemoryRefused, match="damaged"):
        await system.search("tabs", 3)

    assert [found.name for found in path.parent.iterdir()] == ["notes.db"]


@pytest.mark.parametrize("version", [1, 99])
async def test_a_file_of_another_version_is_left_as_it_is(tmp_path, version):
    first = await opened(tmp_path)
    first.database.rows(f"PRAGMA user_version = {version}")
    await first.close(1)

    with pytest.raises(MemoryRefused, match="another kode"):
        await opened(tmp_path)


@pytest.fixture
def unsaid(monkeypatch):
    monkeypatch.setattr(database, "_said", set())


class Letters:
    """How often each letter occurs, as a direction."""

    name, dims = "letters", 26

    async def embed(self, texts):
        counts = [[text.count(letter) for letter in ascii_lowercase] for text in texts]
        rows = np.array(counts, dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def nearest(system, vector):
    index, source = system.database.index, system.store.source(Wanted())
    return index.nearest(vector, system.vectors.space, 3, source, -1.0)


async def test_words_alone_count_and_say_so_once_without_sqlite_vec(tmp_path, monkeypatch, unsaid):
    texts = ["the staging database listens on port 5433", "likes tabs", "deploys on fridays"]
    with_vec = with_embedder(await opened(tmp_path / "a"), Letters())
    await keep(with_vec, *texts)
    await with_vec.vectors.make_missing()
    vector = await with_vec.vectors.of_query("stagin databas port")
    assert len(nearest(with_vec, vector)) == 3
    events = []
    monkeypatch.setitem(sys.modules, "sqlite_vec", None)

    without = with_embedder(await opened(tmp_path / "a", emit=events.append), Letters())
    again = await opened(tmp_path / "a", emit=events.append)
    await keep(without, "likes fish")
    hits = await again.search("stagin databas port", 3)

    assert nearest(without, vector) == {}
    assert [hit.text for hit in hits] == [texts[0]]
    assert len(notices(events)) == 1
    assert "no sqlite-vec" in str((await again.figures())["vectors"])


WRITES = 60


async def read_otherwise(root, monkeypatch):
    """A file whose words were read by another tokenizer."""
    with monkeypatch.context() as patch:
        patch.setattr(terms, "VERSION", 1)
        patch.setattr(terms, "terms_of", lambda text: ["otherwise"])
        first = await opened(root)
        await keep(first, "Prefers PostgreSQL with maxRetries")
        assert len(await first.search("otherwise", 5)) == 2
        await first.close(1)
    return root / "memory" / "notes" / "notes.db"


async def test_an_interrupted_reindexing_leaves_the_file_unchanged(tmp_path, monkeypatch):
    path = await read_otherwise(tmp_path, monkeypatch)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(index.TextIndex, "add", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await opened(tmp_path)

    assert path.read_bytes() == before
    assert len(await (await opened(tmp_path)).search("postgresql", 5)) == 1


async def test_a_reader_reindexes_words_without_changing_the_file(tmp_path, monkeypatch):
    path = await read_otherwise(tmp_path, monkeypatch)
    before = path.read_bytes()

    system = await opened(tmp_path, read_only=True)

    assert [hit.text for hit in await system.search("maxretries", 5)] == [
        "Prefers PostgreSQL with maxRetries"
    ]
    assert path.read_bytes() == before


async def test_words_of_an_earlier_tokenizer_are_read_again(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(terms, "VERSION", 1)
        patch.setattr(terms, "terms_of", lambda text: ["otherwise"])
        first = await opened(tmp_path)
        await keep(first, "likes tabs")
        assert len(await first.search("otherwise", 5)) == 2
        await first.close(1)

    system = await opened(tmp_path)

    assert [hit.text for hit in await system.search("tabs", 5)] == ["likes tabs"]


async def test_a_forgotten_note_is_in_no_page_of_the_file(tmp_path):
    system = await opened(tmp_path)
    (note,) = await keep(system, "the zeppelinowner lives in Wuppertal")
    await keep(system, *(f"note number {n}" for n in range(30)))
    await with_embedder(system, Letters()).vectors.make_missing()
    await system.writer.forget(note.id)
    await system.close(1)

    data = system.database.path.read_bytes().lower()
    assert b"number" in data
    assert b"zeppelin" not in data
    assert b"wuppert" not in data


def write_many(root, writer, both_ready):
    """In a process of its own."""

    async def write():
        system = await opened(root)
        both_ready.wait(60)
        for number in range(WRITES):
            await system.writer.remember(f"{writer} {number}")
        await system.close(1)

    asyncio.run(write())


@pytest.mark.slow
async def test_two_processes_that_write_at_once_leave_every_note(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    both_ready = spawn.Barrier(2)
    writers = [
        spawn.Process(target=write_many, args=(tmp_path, name, both_ready)) for name in ("a", "b")
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        await asyncio.to_thread(writer.join, 100)

    system = await opened(tmp_path)

    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(set(contents(active(system)))) == 2 * WRITES
    assert system.history.tail(5000).damaged == 0


def write_until_killed(root, pipe):
    async def write():
        system = await opened(root)
        number = 0
        while True:
            await system.writer.update_soul(f"I am number {number}.")
            pipe.send(number)
            number += 1

    asyncio.run(write())


@pytest.mark.slow
async def test_a_kill_at_any_moment_keeps_one_acknowledged_soul(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    mine, theirs = spawn.Pipe(duplex=False)
    for count in (1, 2, 3, 5):
        process = spawn.Process(target=write_until_killed, args=(tmp_path, theirs))
        process.start()
        for _ in range(count):
            acknowledged = await asyncio.to_thread(mine.recv)
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        while mine.poll():
            acknowledged = mine.recv()

        system = await opened(tmp_path)
        (soul,) = active(system, "soul")
        await system.close(1)

        assert int(soul.content.split()[-1].rstrip(".")) in (acknowledged, acknowledged + 1)


@pytest.mark.parametrize("read_only", [True, False])
async def test_an_empty_file_is_reported_not_silently_taken_for_new(
    tmp_path, read_only, monkeypatch
):
    monkeypatch.setattr(database, "_said", set())
    path = tmp_path / "memory" / "notes" / "notes.db"
    path.parent.mkdir(parents=True)
    path.touch()
    events = []

    system = await opened(tmp_path, read_only=read_only, emit=events.append)
    found = await system.search("tabs", 3)

    assert found == []
    assert any(
        "is empty (0 bytes)" in text and "memory rebuild" in text for text in notices(events)
    )


async def test_a_file_too_short_for_a_database_is_set_aside(tmp_path):
    path = tmp_path / "memory" / "notes" / "notes.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"7")
    events = []

    await opened(tmp_path, emit=events.append)

    (aside,) = path.parent.glob("*damaged*")
    assert aside.read_bytes() == b"7"
    assert any("was damaged" in text for text in notices(events))
