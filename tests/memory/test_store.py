"""Changes to statements: files follow the log, edits of a person count, nothing is lost."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st

from kode.errors import MemoryRefused
from kode.memory import log
from kode.memory.files import PREPARED
from kode.memory.fold import MemoryView, fold
from kode.memory.rendering import strip_bullet
from kode.memory.statement import Amendment, Author, Relations
from tests.effort import share
from tests.memory.lives import HASH, LAYOUT, MODEL, PERSON, Killed, Life, killed_at


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path)


def _check(life: Life, typed: set[str]) -> None:
    """The files say what the log says, and the person said only what they typed."""
    view = life.store.view()
    for place in LAYOUT.facts(life.store.project):
        format = LAYOUT.format_of(place)
        assert format
        for name, state in zip(LAYOUT.files_of(place, None), ("current", "archived"), strict=True):
            texts = {old.text for old in view.in_place(place) if old.state == state}
            assert set(format.texts(life.read(name))) == texts
    theirs = {
        strip_bullet(e.statement.text) for e in view.entries.values() if e.statement.who == "user"
    }
    assert theirs <= {strip_bullet(text) for text in typed}
    assert not (life.root / PREPARED).exists()


_PLACES = st.sampled_from(("user", "notes", "months"))
_TEXTS = st.sampled_from(
    ("Use tabs", "- Port 80", "- Port 81\n  more", "Key: a", "Key: b", "## M\nx")
)
_EDITS = st.sampled_from(
    ("- Port 80\n", "# Title\r\n\r\n- by hand\r\n", "", "x\n§\ny\n", "```\nopen")
)
_KINDS = ("add", "model", "edit", "forget", "archive", "undo", "redo", "hand", "delete", "write")
_OPERATIONS = st.tuples(
    st.sampled_from((*_KINDS, "wait", "approve", "revise")),
    _PLACES,
    _TEXTS,
    _EDITS,
    st.integers(0, 9),
    st.sampled_from((99, 99, 99, 0, 1, 2, 3, 4, 5)),
)


async def _operate(
    life: Life, operation: tuple[str, str, str, str, int, int], typed: set[str]
) -> None:
    what, target, text, edit, number, _ = operation
    store, place = life.store, f"facts/{target}.md"
    format = LAYOUT.format_of(place)
    assert format
    text = format.fit_text(text)

    alive = [old for old in store.view().entries.values() if old.is_alive]
    entry = alive[number % len(alive)].statement if alive else None
    if what == "add":
        typed.add(text)
        await store.add(life.statement(text, place))
    elif what == "model":
        await store.add(life.statement(text, place, MODEL))
    elif what == "wait":
        await store.add(replace(life.statement(text, place, MODEL), state="waiting"))
    elif what == "approve":
        for waiting in store.view().find_waiting()[:1]:
            typed.add(waiting.text)
            await store.decide(waiting.id, "approve")
    elif what == "hand":
        typed |= set(format.texts(edit))
        life.write(place, edit)
        await store.reconcile()
    elif what == "delete":
        (life.root / place).unlink(missing_ok=True)
    elif what == "write":
        await store.write_file(place, edit, MODEL)
    elif what == "undo":
        await store.undo(with_derived=True)
    elif what == "redo":
        undos = [change.id for change in store.view().changes if change.undoes]
        await store.undo(undos[-1] if undos else "", with_derived=True)
    elif entry and what == "edit":
        other = LAYOUT.format_of(entry.place)
        assert other
        typed.add(other.fit_text(text))
        await store.edit(entry.id, text, PERSON)
    elif entry and what == "revise":
        await store.edit(entry.id, f"{text}, says the model", MODEL)
    elif entry and what == "forget":
        await store.forget(entry.id, PERSON)
    elif entry:
        await store.amend(entry.id, Amendment(state="archived"), PERSON, "archive")


@given(st.lists(_OPERATIONS, min_size=1, max_size=14))
@settings(max_examples=share(400), deadline=None)
def test_files_are_what_the_log_says_after_any_kill(
    operations: list[tuple[str, str, str, str, int, int]],
) -> None:
    """Also if kode is killed before any durable step; and nothing becomes the person's that they
    did not write."""
    with TemporaryDirectory() as folder:
        life, typed = Life(Path(folder)), set[str]()
        for operation in operations:
            count = len(life.store.log.changes())
            try:
                with killed_at(operation[-1]):
                    asyncio.run(_operate(life, operation, typed))
            except MemoryRefused:
                assert len(life.store.log.changes()) == count or operation[0] in ("hand", "delete")
            except Killed:
                life.open()
                if operation[4] % 2:  # the person edits a file before kode goes on
                    place = f"facts/{operation[1]}.md"
                    typed |= {*LAYOUT.format_of(place).texts(operation[3])}
                    life.write(place, operation[3])
            asyncio.run(life.store.reconcile())
            _check(life, typed)
            assert life.store.view() == fold(life.store.log.changes())


async def test_an_edit_of_a_file_is_the_persons_change(life: Life) -> None:
    await life.store.add(life.statement("- Port 80", "facts/notes.md", MODEL))
    text = "# Notes\r\n\r\n- Port 8080\r\n\r\n> quote\r\n"
    life.write("facts/notes.md", text)
    await life.store.reconcile()
    [entry] = [e for e in life.store.view().entries.values() if e.is_alive]
    assert (entry.statement.who, entry.change.kind) == ("user", "edit")
    assert [e.statement.text for e in life.store.view().chain(entry.statement.id)] == [
        "- Port 80",
        "- Port 8080",
    ]
    assert life.read("facts/notes.md") == text
    await life.store.undo()
    assert life.read("facts/notes.md") == text.replace("8080\r\n", "80\r\n")


async def test_a_missing_file_is_restored_and_an_empty_one_counts(life: Life) -> None:
    await life.store.add(life.statement("Use tabs"))
    (life.root / "facts/user.md").unlink()
    await life.store.reconcile()
    assert life.read("facts/user.md") == "Use tabs"
    life.write("facts/user.md", "")
    await life.store.reconcile()
    assert life.texts() == []
    await life.store.undo()
    assert life.read("facts/user.md") == "Use tabs"


async def test_sixteen_writers_lose_nothing(life: Life) -> None:
    stores = [Life(life.root) for _ in range(16)]
    await asyncio.gather(
        *(other.store.add(other.statement(f"fact {n}")) for n, other in enumerate(stores))
    )
    assert sorted(life.texts()) == sorted(f"fact {n}" for n in range(16))
    assert sorted(life.read("facts/user.md").split("\n§\n")) == sorted(life.texts())


async def test_a_weaker_statement_ends_none_and_the_person_decides(life: Life) -> None:
    old = life.statement("Port 8080")
    await life.store.add(old)
    outcome = await life.store.edit(old.id, "Port 7000", MODEL)
    assert life.texts() == ["Port 8080", "Port 7000"]
    assert outcome.conflict == old
    [(first, second)] = life.store.view().conflicts()
    await life.store.decide(f"{first.id}+{second.id}", "second")
    assert (life.texts(), life.store.view().conflicts()) == (["Port 7000"], [])
    await life.store.undo()
    assert life.texts() == ["Port 8080", "Port 7000"]
    await life.store.edit(second.id, "Port 7001", MODEL)
    assert life.texts() == ["Port 8080", "Port 7001"]


async def test_a_write_of_the_model_keeps_what_the_person_said(life: Life) -> None:
    await life.store.add(life.statement("- Port 80", "facts/notes.md"))
    await life.store.add(life.statement("- Port 81", "facts/notes.md", MODEL))
    await life.store.write_file("facts/notes.md", "# T\n\n- new\n", MODEL)
    assert life.read("facts/notes.md") == "# T\n\n- new\n- Port 80\n"


async def test_a_change_is_undone_with_those_that_follow_it(life: Life) -> None:
    first = await life.store.add(life.statement("Port 1"))
    assert first.statement
    assert first.change
    second = await life.store.edit(first.statement.id, "Port 2", PERSON)
    assert second.change
    with pytest.raises(MemoryRefused, match=second.change.id):
        await life.store.undo(first.change.id)
    await life.store.undo(first.change.id, with_derived=True)
    assert (life.texts(), life.read("facts/user.md")) == ([], "")
    batch = life.store.log.changes()[-1].batch
    await life.store.undo(group=batch)
    assert life.texts() == ["Port 2"]


async def test_the_same_text_is_one_statement(life: Life) -> None:
    added = await life.store.add(life.statement("Use tabs", author=MODEL))
    assert (await life.store.add(life.statement("Use tabs", author=MODEL))).change is None
    again = await life.store.add(life.statement("Use tabs"))
    assert [out.text.partition(":")[0] for out in (added, again)] == [
        "added to user",
        "confirmed in user",
    ]
    assert life.texts() == ["Use tabs"]
    assert life.store.view().current()[0].who == "user"


async def test_a_waiting_statement_counts_once_it_is_approved(life: Life) -> None:
    old = life.statement("Port 1", author=MODEL)
    await life.store.add(old)
    outside = Author("model", source="a page")
    new = replace(life.statement("Port 2", author=outside), state="waiting", replaces=(old.id,))
    await life.store.add(new)
    assert life.texts() == ["Port 1"]
    await life.store.decide(new.id, "approve")
    assert (life.texts(), life.read("facts/user.md")) == (["Port 2"], "Port 2")


async def test_an_erased_text_is_nowhere_and_cannot_be_brought_back(life: Life) -> None:
    old = life.statement("My salary is 12")
    await life.store.add(old)
    outcome = await life.store.edit(old.id, "My salary is 13", PERSON)
    note = life.statement("Asked about rent. My salary is 12.", "facts/notes.md")
    note = replace(note, kind="episode")
    await life.store.add(note)
    assert outcome.statement
    await life.store.forget(outcome.statement.id, PERSON, erase=True)
    assert "Asked about rent. (erased)." in life.read("facts/notes.md")
    assert not [
        path for path in life.root.rglob("*") if path.is_file() and "salary" in path.read_text()
    ]
    with pytest.raises(MemoryRefused, match="erased"):
        await life.store.undo()


async def test_a_credential_stays_in_the_persons_file_alone(life: Life) -> None:
    key = "sk-ant-api03-" + "Ab1" * 30
    life.write("facts/user.md", f"Use {key}")
    await life.store.reconcile()
    await life.store.add(life.statement("Use tabs"))
    assert life.read("facts/user.md") == f"Use {key}\n§\nUse tabs"
    assert key not in life.read("history.jsonl")
    assert len(life.texts()) == 2


async def test_texts_of_a_damaged_log_are_recovered(life: Life) -> None:
    for text in ("Port 1", "Port 2", "Port 3"):
        await life.store.add(life.statement(text))
    lines = life.read("history.jsonl").splitlines(keepends=True)
    life.write("history.jsonl", lines[0] + lines[1].replace("Port", "Harbour") + lines[2])
    life.open()
    await life.store.reconcile()
    view = life.store.view()
    who = {old.text: old.who for old in view.current()}
    assert who == {"Port 1": "user", "Port 3": "user", "Port 2": "recovered"}
    assert not life.store.log.damage()
    assert list(life.root.glob("history.jsonl.damaged-*"))
    assert await life.open().reconcile() == []


async def test_a_change_of_a_lost_text_is_undone(life: Life) -> None:
    old = life.statement("Port 1")
    await life.store.add(old)
    change = (await life.store.forget(old.id, PERSON)).change
    life.write("history.jsonl", life.read("history.jsonl").replace("Port 1", "Quay 1"))
    await life.open().reconcile()
    assert change
    assert (await life.store.undo(change.id)).change
    assert life.texts() == []


async def test_texts_of_a_cut_log_are_recovered(life: Life) -> None:
    for kept in (1, 0):
        life.write("history.jsonl", "\n".join(life.read("history.jsonl").splitlines()[:kept]))
        await life.open().add(life.statement(f"Port {kept}"))
        await life.store.add(life.statement(f"Quay {kept}"))
    lines = life.read("history.jsonl").splitlines(keepends=True)
    life.write("history.jsonl", "".join(lines[:-1]))
    await life.open().reconcile()
    assert set(life.texts()) == {"Port 1", "Quay 1", "Port 0", "Quay 0"}
    assert {old.text: old.who for old in life.store.view().current()}["Quay 0"] == "recovered"


async def test_the_joined_logs_of_two_machines_lose_nothing(life: Life, tmp_path: Path) -> None:
    await life.store.add(life.statement("shared"))
    other = Life(tmp_path / "other")
    for name in ("history.jsonl", "facts/user.md"):
        other.write(name, life.read(name))
    await life.store.add(life.statement("here"))
    await other.open().add(other.statement("there"))
    life.write("history.jsonl", life.read("history.jsonl") + other.read("history.jsonl"))
    await life.open().reconcile()
    assert set(life.texts()) == {"shared", "here", "there"}
    _check(life, {"shared", "here", "there"})


async def test_relations_end_what_is_outdated(life: Life) -> None:
    old, same = life.statement("Port 1", author=MODEL), life.statement("It is port 1", author=MODEL)
    for statement in (old, same):
        await life.store.add(statement)
    new = life.statement("Port 2", author=MODEL)
    relations = Relations(same=((old.id, same.id),), outdated=((old.id, new.id),))
    outcome = await life.store.add(new, relations=relations)
    assert outcome.change
    assert (life.texts(), len(outcome.change.end)) == (["Port 2"], 2)


def test_places_are_found_by_pattern(life: Life) -> None:
    assert life.store.fact_places() == ["facts/user.md", "facts/notes.md", "facts/months.md"]
    assert not life.store.is_here(f"project-facts/{HASH}/env.md")


@pytest.fixture(scope="module")
def _short_logs_have_an_index() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "MIN_LINES", 3)
        patch.setattr(log, "BATCH", 2)
        yield


def _parts(view: MemoryView, whole: MemoryView) -> dict[str, object]:
    """What a view says of each thing when it is asked for it alone."""
    return {
        "entries": {id: view.entry(id) for id in (*whole.entries, "none")},
        "places": {place: [*view.in_place(place)] for place in (*whole.places, "none")},
        "files": {name: view.file(name) for name in (*whole.files, "none")},
        "waiting": sorted(new.id for new in view.find_waiting()),
        "conflicts": view.conflicts(),
    }


@pytest.mark.usefixtures("_short_logs_have_an_index")
@given(st.lists(_OPERATIONS, min_size=3, max_size=14), st.booleans())
@settings(max_examples=share(200), deadline=None)
def test_an_index_finds_what_the_whole_log_says(
    operations: list[tuple[str, str, str, str, int, int]], is_damaged: bool
) -> None:
    """In a process that goes on, and in one that starts; also if kode is killed, or a line is
    damaged."""
    with TemporaryDirectory() as folder:
        life = Life(Path(folder))
        for number, operation in enumerate(operations):
            if number == 5:
                steady = Life(life.root).store
                steady.view()
            with suppress(MemoryRefused, Killed), killed_at(operation[-1]):
                asyncio.run(_operate(life, operation, set()))
            if is_damaged and number == 7:
                text = life.read("history.jsonl")
                life.write("history.jsonl", text.replace('"user"', '"usEr"', 1))
                asyncio.run(life.open().reconcile())
            changes = life.open().log.changes()
            whole = fold(changes)
            for store in (life.open(), steady if number >= 5 else life.open()):
                assert _parts(store.view(), whole) == _parts(whole, whole)
                assert set(store.view().list_places("facts/*.md")) >= {*whole.places}
                assert store.log.last_id() == "".join(change.id for change in changes[-1:])


@pytest.mark.usefixtures("_short_logs_have_an_index")
@pytest.mark.parametrize(
    ("name", "old", "new", "texts", "says"),
    [
        pytest.param("index-history.sqlite", "SQLite", "SQLitf", 5, 0, id="damaged index"),
        pytest.param("index-history.sqlite", None, "", 5, 0, id="no index"),
        pytest.param("history.jsonl", "Port 1", "Port 7", 4, 2, id="changed line"),
        pytest.param("history.jsonl", "\n", "\n\n", 5, 0, id="longer log"),
    ],
)
async def test_an_index_that_does_not_fit_is_made_again(
    life: Life, name: str, old: str | None, new: str, texts: int, says: int
) -> None:
    for number in range(5):
        await life.store.add(life.statement(f"Port {number}"))
    life.open().view()
    path = life.root / name
    if old is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes().replace(old.encode(), new.encode(), 1))
    assert len(life.open().view().current("facts/user.md")) == texts
    if name.endswith("sqlite") and old:
        path.write_bytes(b"not a database" * 100)
    notices = await life.open().reconcile()
    assert len(notices) == says
    assert len(life.open().view().current("facts/user.md")) == 5
    assert path.exists()


@pytest.mark.usefixtures("_short_logs_have_an_index")
async def test_a_line_that_changed_unseen_is_noticed_when_read(life: Life) -> None:
    for number in range(5):
        await life.store.add(life.statement(f"Port {number}"))
    life.open().view()
    path = life.root / "history.jsonl"
    before = path.stat()
    life.write(path.name, life.read(path.name).replace("Port 1", "Port 7", 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert life.open().log.damage() == ""
    assert len(life.store.view().current("facts/user.md")) == 4
    assert life.store.log.damage()


@pytest.mark.usefixtures("_short_logs_have_an_index")
async def test_a_process_that_may_only_read_writes_no_index(life: Life) -> None:
    for number in range(5):
        await life.store.add(life.statement(f"Port {number}"))
    store = life.open()
    reader = replace(store, read_only=True)
    assert len(reader.view().current("facts/user.md")) == 5
    assert not list(life.root.glob("index-*"))
