"""Memory's files and their history brought together: after a kill or a full disk between the two,
after damage to either, and after edits by hand. In all four systems."""

import asyncio
import contextlib
import errno
import json
import multiprocessing
import os
import re
import shutil
import sqlite3
import subprocess
import sys

import apsw
import pytest

from kode import durable
from kode.config import MemoryConfig
from kode.errors import KodeError, MemoryRefused
from kode.events import Notice
from kode.memory import make_system
from kode.memory.base import reconcile
from kode.memory.change import BY_HAND
from kode.memory.commands import memory_command
from kode.memory.notes import database
from kode.registry import SYSTEMS
from tests.memory.life import memory_context
from tests.memory.test_by_hand import TARGETS

ADDED = {name: next(iter(targets)) for name, targets in TARGETS.items()}
PLACES = 20
ENDS = (".", *"0123456789abcdef")
"""How a sentence ends: with a full stop, or the id of what undoes it."""
FILES = {"tiered": "user.md", "vault": "user.md", "journal": "MEMORY.md", "notes": "notes.db"}
"""Where facts stand, of systems that search and have several files."""
OF_FILES = [name for name in SYSTEMS if name != "notes"]


class Killed(BaseException):
    """Nothing that the process does has an effect any more."""


@contextlib.contextmanager
def failing(monkeypatch, at, error):
    """From the event numbered `at` on, calls that change files raise an error; yields the events so
    far."""
    events = []

    def step(name):
        events.append(name)
        if len(events) > at:
            raise apsw.FullError if (error, name) == (disk_full, "commit") else error()

    with monkeypatch.context() as patch:
        full = ("write", "mkdir", "open")
        names = full if error is disk_full else (*full, "rename", "replace", "unlink", "fsync")
        for name in names:
            real = getattr(os, name)

            def call(*args, real=real, name=name, **options):
                if name != "open" or args[1] & os.O_CREAT:
                    step(name)
                return real(*args, **options)

            patch.setattr(os, name, call)

        @contextlib.contextmanager
        def transaction(connection, real=database.transaction):
            with real(connection):
                yield
                step("commit")

        patch.setattr(database, "transaction", transaction)
        yield events


def disk_full():
    return OSError(errno.ENOSPC, "No space left on device")


def context(root, said):
    """A folder of memory, for a project that stays when it is copied."""

    def emit(event):
        if isinstance(event, Notice):
            said.append(event.text)

    return memory_context(root, session_id=None, project_root=root.parent, emit=emit)


async def opened(root, name, said=None, **settings):
    """A system as a session or a command opens it."""
    system = make_system(MemoryConfig(system=name, **settings))
    notices = [] if said is None else said
    await system.open(context(root, notices), {})
    await reconcile(system)
    return system


async def with_facts(root, name, *facts):
    """A memory of facts, closed."""
    system = await opened(root, name)
    for fact in facts:
        await memory_command(system, ["add", ADDED[name], fact])
    await system.close(1.0)
    return system


def file_of(root, name):
    """The file in which facts stand."""
    (file,) = (root / "memory").rglob(FILES.get(name, "*.md"))
    return file


def edit(path, old, new):
    """Writes into the place where facts stand, past kode; "" for a new text removes the entry."""
    if path.suffix != ".db":
        path.write_text(re.sub(rf"\S*{old}.*\n?" if not new else old, new, path.read_text()))
        return
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        if new:
            sql = "UPDATE memory_notes SET content = replace(content, ?, ?)"
            file.execute(sql, (old, new))
        else:
            file.execute("DELETE FROM memory_notes WHERE instr(content, ?)", (old,))


async def reopened(root, name):
    """The memory opened again, and what was said at that."""
    said = []
    system = await opened(root, name, said)
    return system, said


async def check_after(root, name, events):
    """A change that failed is there or not, and its history says the same; returns whether."""
    system, said = await reopened(root, name)
    shown = await memory_command(system, ["show"])
    standing = [one for one in system.history.standing(name) if "beta" in "".join(one.after)]
    there = "beta thing" in shown
    recorded = "beta" in system.history.path.read_text()

    assert "alpha thing" in shown, events
    assert len(standing) == there, events
    assert system.history.unfinished() == [], events
    assert len(said) == (recorded and not there), (events, said)
    assert (await reopened(root, name))[1] == []
    await memory_command(system, ["undo"])
    shown = await memory_command(system, ["show"])
    assert "beta thing" not in shown
    assert ("alpha thing" in shown) == there, events
    await system.close(1.0)
    return there


@pytest.mark.slow
@pytest.mark.parametrize("error", [Killed, disk_full])
@pytest.mark.parametrize("name", SYSTEMS)
async def test_a_change_cut_anywhere_is_made_or_never_made(tmp_path, monkeypatch, name, error):
    await with_facts(tmp_path / "first", name, "alpha thing")
    outcomes, at, events = set(), 0, []
    while len(events) >= at:
        root = tmp_path / str(at)
        shutil.copytree(tmp_path / "first", root)
        system = await opened(root, name)
        with failing(monkeypatch, at, error) as events:
            with contextlib.suppress(Killed, KodeError):
                await memory_command(system, ["add", ADDED[name], "beta thing"])
        with contextlib.suppress(Exception):
            system.database.close()
        outcomes.add(await check_after(root, name, events))
        at += 1

    assert outcomes == {True, False}


@pytest.mark.parametrize("name", SYSTEMS)
async def test_a_change_killed_after_its_line_is_said_once(tmp_path, monkeypatch, name):
    system = await with_facts(tmp_path, name, "alpha thing")
    system = await opened(tmp_path, name)

    def die(change):
        raise Killed

    append = system.history.append
    with monkeypatch.context() as patch:
        patch.setattr(system.history, "conclude", die)
        patch.setattr(system.history, "append", lambda change, marker: die(append(change, marker)))
        patch.setattr(system.history, "forget", lambda id: None)
        with pytest.raises(Killed):
            await memory_command(system, ["add", ADDED[name], "beta thing"])
    (change,) = system.history.tail(1).changes
    log = await memory_command(system, ["log"])
    again, said = await reopened(tmp_path, name)

    assert "never made" in next(line for line in log.split("\n") if line.startswith(change.id))
    assert len(said) == 1
    assert change.id in said[0]
    assert change.id not in [one.id for one in again.history.standing(name)]
    assert (await reopened(tmp_path, name))[1] == []


@pytest.mark.parametrize("name", OF_FILES)
async def test_a_shortened_file_is_an_edit_to_undo(tmp_path, name):
    await with_facts(tmp_path, name, "alpha thing", "beta thing")
    path = file_of(tmp_path, name)
    whole = path.read_text()
    path.write_text(whole[: whole.rindex("beta")])

    system, said = await reopened(tmp_path, name)
    (edit,) = system.history.tail(1).changes
    log = await memory_command(system, ["log", "-n", "1"])

    assert (edit.kind, edit.who) == (BY_HAND, "user")
    assert len(said) == 1
    assert edit.id in said[0]
    assert "beta" in log
    assert "alpha" not in log
    await memory_command(system, ["undo"])
    assert path.read_text().split() == whole.split()
    assert (await reopened(tmp_path, name))[1] == []


@pytest.mark.parametrize("name", SYSTEMS)
async def test_an_edit_before_a_change_is_recorded_apart(tmp_path, name):
    await with_facts(tmp_path, name, "alpha thing")
    system = await opened(tmp_path, name)
    edit(file_of(tmp_path, name), "alpha", "gamma")

    await memory_command(system, ["add", ADDED[name], "beta thing"])

    kinds = [change.kind for change in system.history.tail(2).changes]
    assert kinds[1] == BY_HAND
    for _ in range(2):
        await memory_command(system, ["undo"])
    shown = await memory_command(system, ["show"])
    assert "alpha thing" in shown
    assert "gamma" not in shown
    assert (await reopened(tmp_path, name))[1] == []


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("new", ["delta", ""])
async def test_an_edit_of_one_entry_is_said_and_undone(tmp_path, name, new):
    await with_facts(tmp_path, name, "alpha thing", "beta thing")
    edit(file_of(tmp_path, name), "beta", new)

    system, said = await reopened(tmp_path, name)
    (change,) = system.history.tail(1).changes
    (hit, *_) = await system.search(f"{new} thing", 1)
    shown = await memory_command(system, ["show"])

    assert (change.kind, change.who) == (BY_HAND, "user")
    assert len(said) == 1
    assert change.id in said[0]
    assert ("beta thing" in shown, "delta thing" in shown) == (False, bool(new))
    assert f"{new or 'alpha'} thing" in hit.text
    await memory_command(system, ["undo"])
    assert "beta thing" in await memory_command(system, ["show"])
    assert (await reopened(tmp_path, name))[1] == []


@pytest.mark.parametrize("name", ["tiered", "notes"])
async def test_a_history_cut_at_a_line_is_said_once(tmp_path, name):
    await with_facts(tmp_path, name, "alpha thing", "beta thing")
    path = tmp_path / "memory" / "history.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:1]))

    system, said = await reopened(tmp_path, name)
    shown = await memory_command(system, ["show"])

    assert str(path) in said[0]
    assert "alpha thing" in shown
    assert "beta thing" in shown
    system.history.append(system.history.tail(1).changes[0])
    assert [one for one in (await reopened(tmp_path, name))[1] if str(path) in one] == []


@pytest.mark.parametrize("damage", [lambda x: x.replace(b"beta", b"bets"), lambda x: x + x])
async def test_a_flipped_or_doubled_history_is_said_once(tmp_path, damage):
    await with_facts(tmp_path, "tiered", "alpha thing", "beta thing")
    path = tmp_path / "memory" / "history.jsonl"
    path.write_bytes(damage(path.read_bytes()))

    system, said = await reopened(tmp_path, "tiered")

    assert len(said) == (1 if b"bets" in path.read_bytes() else 0) or str(path) in said[0]
    assert "beta thing" in await memory_command(system, ["show"])
    assert (await reopened(tmp_path, "tiered"))[1] == []


@pytest.mark.parametrize("name", SYSTEMS)
async def test_a_lost_memory_is_rebuilt_from_its_history(tmp_path, name):
    await with_facts(tmp_path, name, "alpha thing", "beta thing", "gamma thing")
    system = await opened(tmp_path, name)
    await memory_command(system, ["undo"])
    await system.close(1.0)
    with contextlib.suppress(AttributeError):
        system.database.close()
    for path in (tmp_path / "memory").rglob("*"):
        if path.is_file() and not path.name.startswith("history"):
            path.unlink()

    system = make_system(MemoryConfig(system=name))
    await system.open(context(tmp_path, []), {})
    await memory_command(system, ["rebuild"])
    shown = await memory_command(system, ["show"])

    assert "alpha thing" in shown
    assert "beta thing" in shown
    assert "gamma thing" not in shown
    assert (await reopened(tmp_path, name))[1] == []


@pytest.mark.parametrize("name", OF_FILES)
async def test_a_file_that_is_no_text_is_rebuilt(tmp_path, name):
    await with_facts(tmp_path, name, "alpha thing")
    path = file_of(tmp_path, name)
    path.write_bytes(b"\xff\xfe alpha")

    system, said = await reopened(tmp_path, name)
    await memory_command(system, ["rebuild"])

    assert "rebuild" in said[0]
    assert "alpha thing" in path.read_text()
    assert [one.read_bytes() for one in path.parent.glob("*.damaged-*")] == [b"\xff\xfe alpha"]
    assert (await reopened(tmp_path, name))[1] == []


async def test_a_damaged_notes_database_names_what_rebuilds_it(tmp_path):
    system = await with_facts(tmp_path, "notes", "alpha thing")
    system.database.close()
    file_of(tmp_path, "notes").write_bytes(b"garbage" * 1000)

    system, said = await reopened(tmp_path, "notes")
    await memory_command(system, ["rebuild"])

    assert any("memory rebuild" in one for one in said)
    assert "alpha thing" in await memory_command(system, ["show"])


async def test_an_older_copy_of_the_notes_is_noticed(tmp_path):
    system = await with_facts(tmp_path, "notes", "alpha thing")
    system.database.close()
    path = file_of(tmp_path, "notes")
    older = path.read_bytes()
    system = await with_facts(tmp_path, "notes", "beta thing")
    system.database.close()
    path.write_bytes(older)

    system, said = await reopened(tmp_path, "notes")
    await memory_command(system, ["rebuild"])

    assert len(said) == 1
    assert "beta thing" in await memory_command(system, ["show"])
    assert (await reopened(tmp_path, "notes"))[1] == []


@pytest.mark.parametrize(("name", "target"), [("vault", "user"), ("journal", "memory")])
async def test_an_import_keeps_what_a_file_has_beyond_it(tmp_path, name, target):
    system = await opened(tmp_path, name)
    await memory_command(system, ["add", target, "alpha thing"])
    await memory_command(system, ["export", str(tmp_path / "export")])
    path = file_of(tmp_path, name)
    path.write_text(path.read_text().replace("alpha", "gamma") + "- delta thing\n")
    system = await opened(tmp_path, name)
    before = path.read_bytes()

    told = await memory_command(system, ["import", str(tmp_path / "export")])
    for text in ("alpha thing", "gamma thing", "delta thing"):
        assert text in path.read_text()
    await memory_command(system, told.split("kode memory ")[-1].split())

    assert path.read_bytes() == before


async def test_the_log_of_a_whole_file_shows_the_change_alone(tmp_path):
    system = await opened(tmp_path, "journal")
    for number in range(5):
        await memory_command(system, ["add", "memory", f"fact {number} {'long ' * 30}"])

    log = await memory_command(system, ["log", "-n", "1"])

    assert "fact 4" in log
    assert "fact 3" not in log


async def test_memory_that_was_never_compared_is_taken_as_it_is(tmp_path):
    await with_facts(tmp_path, "tiered", "alpha thing")
    path = tmp_path / "memory" / "history.jsonl"
    (tmp_path / "memory" / "history.jsonl.seal").unlink()
    line = json.loads(path.read_text())
    older = {name: line[name] for name in line if name not in ("stood", "stands", "sum")}
    path.write_text(f"{json.dumps(older)}\n")
    file_of(tmp_path, "tiered").write_text("alpha thing\n§\nby hand")

    system, said = await reopened(tmp_path, "tiered")
    await memory_command(system, ["add", "user", "beta thing"])

    assert said == []
    assert [one.kind for one in system.history.tail(3).changes] == ["add", BY_HAND, "add"]


@pytest.mark.slow
async def test_nothing_to_rebuild_is_no_error(tmp_path):
    for name in SYSTEMS:
        system = await with_facts(tmp_path / name, name, "alpha thing")
        system = await opened(tmp_path / name, name)
        before = system.history.path.read_bytes()
        await memory_command(system, ["rebuild"])
        assert system.history.path.read_bytes() == before
        with pytest.raises(MemoryRefused):
            await memory_command(system, ["undo", "no-such-id"])


def add_one(root, name, number):
    asyncio.run(with_facts(root, name, f"fact number {number}"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_eight_processes_adding_at_once_all_succeed(tmp_path, name):
    fork = multiprocessing.get_context("fork")
    adding = [fork.Process(target=add_one, args=(tmp_path, name, n)) for n in range(8)]
    for process in adding:
        process.start()
    for process in adding:
        process.join(100)

    system, said = asyncio.run(reopened(tmp_path, name))
    shown = asyncio.run(memory_command(system, ["show"]))

    assert [process.exitcode for process in adding] == [0] * 8
    assert [n for n in range(8) if f"fact number {n}" not in shown] == []
    assert len(list(system.history.standing(name))) == 8
    assert said == []


def damaged(data, place, kind):
    at = place * len(data) // PLACES
    if kind == "truncated":
        return data[:at]
    if kind == "doubled":
        return data[:at] + data[: len(data) - at] + data[at:]
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def has_a_damaged_index(path):
    """Whether the rows of a database are whole, and an index of them is not."""
    if path.suffix != ".db":
        return False
    with (
        contextlib.suppress(sqlite3.DatabaseError),
        contextlib.closing(sqlite3.connect(path)) as database,
    ):
        found = [row for (row,) in database.execute("PRAGMA integrity_check")]
        return bool(found) and all("index" in row for row in found)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["truncated", "flipped", "doubled"])
@pytest.mark.parametrize("name", SYSTEMS)
async def test_damage_to_any_file_is_said_and_costs_nothing_else(tmp_path, name, kind):
    first, facts = tmp_path / "first", [f"fact number {n} of some length" for n in range(4)]
    system = await with_facts(first, name, *facts)
    with contextlib.suppress(AttributeError):
        system.database.close()
    files = [path for path in sorted(first.rglob("*")) if path.is_file() and path.stat().st_size]
    for path in files:
        data = path.read_bytes()
        for place in range(PLACES):
            root = tmp_path / "again"
            shutil.copytree(first, root)
            (root / path.relative_to(first)).write_bytes(damaged(data, place, kind))
            where = (path.relative_to(first), place)
            if kind == "flipped" and has_a_damaged_index(root / path.relative_to(first)):
                shutil.rmtree(root)
                continue  # SQLite looks an index over only if it is asked to read all of it

            system, said = await reopened(root, name)
            shown = await memory_command(system, ["show"])
            await memory_command(system, ["log"])
            try:
                await memory_command(system, ["add", ADDED[name], "beta thing"])
            except MemoryRefused:  # it is no text
                await memory_command(system, ["rebuild"])
                await memory_command(system, ["add", ADDED[name], "beta thing"])
            there = await memory_command(system, ["show"])
            await system.close(1.0)

            lost = [fact for fact in facts if fact not in shown]
            assert not lost or said, where
            assert not lost or any(fact.encode() in data for fact in lost), where
            assert all(len(one) < 400 and one.endswith(ENDS) for one in said), (where, said)
            assert "beta thing" in there, where
            assert (await reopened(root, name))[1] == [], where
            with contextlib.suppress(AttributeError):
                system.database.close()
            shutil.rmtree(root)


async def test_a_marker_stays_while_its_line_is_being_written(tmp_path, monkeypatch):
    """Another process opens memory between the marker of a change and its line."""
    await with_facts(tmp_path, "tiered", "alpha thing")
    system = await opened(tmp_path, "tiered")
    code = (
        "import pathlib, sys\n"
        "from kode.memory.history import History\n"
        "history = History(pathlib.Path(sys.argv[1]))\n"
        "(id,) = history.unfinished()\n"
        "print(id, flush=True)\n"
        "history.forget_unwritten(id)\n"
    )
    append, forget = durable.append_to, system.history.forget
    beside, kept = [], []

    def append_to(*arguments, **options):
        command = [sys.executable, "-c", code, str(system.history.path)]
        beside.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert beside[0].stdout.readline().strip() in system.history.unfinished()
        return append(*arguments, **options)

    def forget_last(id):
        beside[0].communicate()
        kept.extend(system.history.unfinished())
        forget(id)

    monkeypatch.setattr(durable, "append_to", append_to)
    monkeypatch.setattr(system.history, "forget", forget_last)
    await memory_command(system, ["add", "user", "beta thing"])

    assert kept == [system.history.tail(1).changes[0].id]
