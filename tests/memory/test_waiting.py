"""`kode memory review`: what waits for a person's judgment."""

import json
import time

import pytest

from kode.errors import MemoryRefused
from kode.memory.base import reconcile
from kode.memory.change import Author
from kode.memory.commands import memory_command
from kode.memory.history import History
from kode.memory.review import NOTHING_WAITS, waiting
from kode.memory.waiting import (
    FOUND_BY,
    MAX_IMPORTED,
    MAX_WAITING,
    Proposal,
    proposals,
    propose,
    take,
)
from tests.memory.journal import life as journal_life
from tests.memory.life import Model, lived, opened, turn, use, user_file, write_facts
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
    assert "may no longer be true: 1" in await memory_command(system, ["status"])
    (tmp_path / "app.py").write_text("port = 81")

    told = await memory_command(system, ["review"])

    stale, expired = told.index('"the port is 80"'), told.index('"away"')
    assert "app.py:1 changed: add " in told[stale:expired]
    assert "may no longer be true: 2" in await memory_command(system, ["status"])

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


# ── what waits for approval is in the history alone ──────────────────────────────────────────


async def test_an_approval_that_was_never_made_leaves_it_waiting(tmp_path):
    """The line of the approval is there, its file is not: as a kill between leaves them."""
    system = await opened(tmp_path)
    await take(system.history, [Proposal(id="p1", text="likes tabs", about="user", client="x")])
    await memory_command(system, ["approve", "p1"])
    (added,) = [one for one in system.history.tail(9).changes if one.approves == "p1"]
    user_file(tmp_path).unlink()
    unfinished = tmp_path / "memory" / "unfinished"
    (unfinished / added.id).touch()

    system = await opened(tmp_path)
    await reconcile(system)

    assert [one.id for one in await waiting(system)] == ["p1"]


async def test_five_thousand_imports_take_a_few_seconds(tmp_path):
    history = History(tmp_path / "memory" / "history.jsonl")
    many = [
        Proposal(id=f"i1-{number:04}", text=f"rule {number}", client="Codex", batch="i1")
        for number in range(MAX_IMPORTED)
    ]

    began = time.process_time()
    assert await take(history, many) == MAX_IMPORTED
    assert len(proposals(history)) == MAX_IMPORTED
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("life", "target"),
    [
        (opened, "user"),
        (vault_life.opened, "user"),
        (journal_life.opened, "memory"),
        (notes_life.opened, "note"),
    ],
)
async def test_the_persons_words_never_wait_beside_outside_text(tmp_path, life, target):
    system = await life(tmp_path, tainted=lambda: True, outside=lambda: "https://x.example")

    await memory_command(system, ["add", target, "likes tabs"])

    assert await waiting(system) == []
    assert "likes tabs" in await memory_command(system, ["show"])
    change = system.history.tail(1).changes[0]
    assert (change.who, change.source) == ("user", "")


async def test_a_waiting_task_names_the_outside_source(tmp_path):
    system = await vault_life.opened(tmp_path, outside=lambda: "https://x.example")

    await system.after_turn(turn(1, "read the page", tainted=True))

    (one,) = await waiting(system)
    assert "https://x.example" in one.line


async def test_an_episode_that_waits_names_the_outside_source(tmp_path):
    model = Model([json.dumps({"narrative": "Read a page.", "facts": []})])
    system = await opened(tmp_path, model=model, outside=lambda: "https://x.example")
    for number in (1, 2, 3):
        await system.after_turn(turn(number, "read the page", tainted=True))
    await system.before_drop(lived("a", "b", "c"), "exit")

    (one,) = await waiting(system)
    assert "https://x.example" in one.line


async def test_no_more_than_a_hundred_proposals_wait(tmp_path):
    history = (await opened(tmp_path)).history

    async def suggest(number):
        return await propose(history, f"Fact {number}.", "user", client="zed", project=tmp_path)

    for number in range(MAX_WAITING):
        assert await suggest(number)
    with pytest.raises(MemoryRefused):
        await suggest(MAX_WAITING)

    assert MAX_WAITING == len(proposals(history)) == 100


@pytest.mark.parametrize("words", ["please remember my tabs", ""])
async def test_waiting_facts_say_whether_the_person_spoke(tmp_path, words):
    system = await opened(tmp_path)
    author = Author(who="extraction", session="s", words=words)
    await propose(
        system.history, "Likes tabs.", "user", client=FOUND_BY, project=tmp_path, author=author
    )

    (one,) = await waiting(system)

    assert one.proposal.words == words
    assert ("please remember my tabs" in one.text) is bool(words)
