"""The archive of facts: out of the prompt, without a limit, found, the same entry as before."""

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from kode.errors import MemoryRefused, ToolError
from kode.memory import review
from kode.memory.commands import memory_command
from kode.memory.exchange import carrier_of
from kode.memory.tiered.facts import parse
from kode.memory.why import why
from tests.effort import share
from tests.memory.life import (
    OTHER_SESSION,
    Model,
    env_file,
    opened,
    settings,
    turn,
    use,
    write_facts,
)
from tests.memory.tiered.test_processes import killed

UNMERGED = settings(merge_on_write=False)
PORT = "The billing gateway listens on port 8080"
REGION = "Snapshots are stored in the Lisbon region"


def archive_file(root):
    return root / "memory" / "facts" / "archive" / "env.md"


def on_disk(root):
    """What stands and what is archived."""
    paths = (env_file(root), archive_file(root))
    return tuple(parse(path.read_text()) if path.exists() else () for path in paths)


async def archived(root, *entries, **changes):
    """A session in which these were archived."""
    write_facts(archive_file(root), *entries)
    return await opened(root, **changes)


async def archive(system, old_text):
    return await use(system, action="archive", target="env", old_text=old_text)


async def last_id(system):
    return system.history.tail(1).changes[0].id


async def test_an_archived_entry_leaves_the_prompt_and_stays_on_disk(tmp_path):
    write_facts(env_file(tmp_path), PORT, REGION)
    system = await opened(tmp_path)

    told = await archive(system, "Lisbon")

    assert "Archived from env" in told
    assert on_disk(tmp_path) == ((PORT,), (REGION,))
    shown = (await (await opened(tmp_path)).inject("start")).system
    assert PORT in shown
    assert REGION not in shown
    assert "1 archived" in shown
    assert not any(REGION in section.content for section in await system.snapshot())


async def test_undoing_it_leaves_the_files_as_they_were(tmp_path):
    write_facts(env_file(tmp_path), "first", PORT, "last")
    before = env_file(tmp_path).read_bytes()
    system = await opened(tmp_path)
    await archive(system, PORT)
    change = await last_id(system)

    await memory_command(system, ["undo"])

    assert env_file(tmp_path).read_bytes() == before
    assert not archive_file(tmp_path).exists()
    with pytest.raises(MemoryRefused):
        await memory_command(system, ["undo", change])
    await memory_command(system, ["undo", await last_id(system)])
    assert on_disk(tmp_path) == (("first", "last"), (PORT,))


async def test_a_full_file_says_to_archive_and_then_has_room(tmp_path):
    write_facts(env_file(tmp_path), PORT)
    config = settings(merge_on_write=False, facts_limit_env=len(PORT) + 10)
    system = await opened(tmp_path, config=config)
    with pytest.raises(ToolError, match="`archive`"):
        await use(system, action="add", target="env", content=REGION)

    await archive(system, PORT)
    await use(system, action="add", target="env", content=REGION)

    assert on_disk(tmp_path) == ((REGION,), (PORT,))


async def test_an_archived_entry_that_fits_comes_once_a_session(tmp_path):
    system = await archived(tmp_path, PORT, REGION)

    first = await system.recall(turn(1, "why does the gateway not answer?"))

    assert PORT in first
    assert REGION not in first
    assert await system.recall(turn(2, "restart the gateway")) == ""
    resumed = await opened(tmp_path, state=system.state())
    assert await resumed.recall(turn(3, "restart the gateway")) == ""
    later = await opened(tmp_path, session_id=OTHER_SESSION)
    assert PORT in await later.recall(turn(1, "restart the gateway"))


async def test_a_request_that_nothing_fits_brings_nothing(tmp_path):
    system = await archived(tmp_path, PORT, REGION)

    assert await system.recall(turn(1, "write a poem on tea")) == ""


async def test_however_many_fit_little_comes(tmp_path):
    many = [f"The gateway of tenant {number} {'speaks plain text ' * 5}" for number in range(40)]
    system = await archived(tmp_path, *many)

    recalled = await system.recall(turn(1, "restart the gateway"))

    assert 1 <= recalled.count("The gateway of tenant") <= 5
    assert len(recalled) < 900


async def test_search_finds_it_and_says_where(tmp_path):
    system = await archived(tmp_path, PORT, REGION)

    told = await use(system, action="search", query="gateway port")

    assert f"[env, archived] {PORT}" in told


async def test_an_expired_archived_entry_is_neither_brought_nor_found(tmp_path):
    write_facts(env_file(tmp_path), REGION)
    system = await opened(tmp_path, config=UNMERGED)
    await use(system, action="add", target="env", content=PORT, until="2026-03-05")
    await archive(system, PORT)
    later = await opened(
        tmp_path, session_id=OTHER_SESSION, now=lambda: datetime(2026, 3, 6, tzinfo=UTC)
    )

    assert await later.recall(turn(1, "restart the gateway")) == ""
    assert PORT not in await use(later, action="search", query="gateway port")


async def test_an_archived_entry_citing_changed_code_is_marked(tmp_path):
    (tmp_path / "app.py").write_text("PORT = 8080\n")
    system = await opened(tmp_path, config=UNMERGED)
    await use(system, action="add", target="env", content=PORT, source="app.py:1-1")
    await archive(system, PORT)
    (tmp_path / "app.py").write_text("PORT = 8081\n")

    recalled = await system.recall(turn(1, "restart the gateway"))

    assert f"[may be stale: app.py:1 changed] {PORT}" in recalled
    assert "may be stale" in await use(system, action="search", query="gateway port")
    assert "may be stale" in await memory_command(system, ["show"])


async def test_the_same_text_is_known(tmp_path):
    system = await archived(tmp_path, PORT)

    told = await use(system, action="add", target="env", content=PORT)

    assert "Already in" in told
    assert on_disk(tmp_path) == ((), (PORT,))


async def test_a_newer_statement_takes_its_place_in_the_archive(tmp_path):
    newer = "The billing gateway listens on port 8081"
    system = await archived(tmp_path, REGION, PORT, model=Model(["update"]))
    await system.recall(turn(1, "let the billing gateway listen on port 8081"))

    told = await use(system, action="add", target="env", content=newer)

    assert "it is archived" in told
    assert on_disk(tmp_path) == ((), (REGION, newer))
    await memory_command(system, ["undo"])
    standing, kept = on_disk(tmp_path)
    assert not standing
    assert set(kept) == {REGION, PORT, newer}


async def test_the_models_finding_does_not_beat_an_archived_statement(tmp_path):
    system = await archived(tmp_path, PORT, model=Model(["update"]))
    newer = "The billing gateway listens on port 8081"

    await use(system, action="add", target="env", content=newer)

    assert on_disk(tmp_path) == ((newer,), (PORT,))
    (pair,) = review.pairs(system)
    assert pair.contradict
    await review.settle_pair(system, pair, "first")
    assert on_disk(tmp_path) == ((), (PORT,))


async def test_it_can_be_replaced_and_removed_where_it_is(tmp_path):
    system = await archived(tmp_path, PORT, REGION)

    await memory_command(system, ["replace", "env", PORT, "No gateway is in use"])
    await memory_command(system, ["remove", "env", REGION])

    assert on_disk(tmp_path) == ((), ("No gateway is in use",))
    await memory_command(system, ["undo"])
    assert on_disk(tmp_path) == ((), ("No gateway is in use", REGION))


async def test_undoing_what_added_it_takes_it_out_of_the_archive(tmp_path):
    system = await opened(tmp_path, config=UNMERGED)
    await memory_command(system, ["add", "env", PORT])
    added = await last_id(system)
    await memory_command(system, ["archive", "env", PORT])

    await memory_command(system, ["undo", added])

    assert on_disk(tmp_path) == ((), ())


async def test_why_and_show_know_it_as_the_entry_it_was(tmp_path):
    system = await opened(tmp_path, config=UNMERGED)
    await memory_command(system, ["add", "env", PORT])
    await archive(system, PORT)

    assert "add" in why(system, PORT)
    shown = await memory_command(system, ["show"])
    assert shown.index(PORT) < shown.index("archived: not in prompts")
    assert [entry.text for entry in system.entries()] == [PORT]


async def test_an_archive_edited_by_hand_is_read_like_any_file(tmp_path):
    archive_file(tmp_path).parent.mkdir(parents=True)
    archive_file(tmp_path).write_bytes(f"{PORT}\r\n§\r\n{REGION}\r\n".encode())
    system = await opened(tmp_path)

    assert {entry.text for entry in system.entries()} == {PORT, REGION}


async def test_an_export_that_is_imported_puts_it_into_the_archive(tmp_path):
    write_facts(env_file(tmp_path / "one"), REGION)
    system = await archived(tmp_path / "one", PORT)
    (tmp_path / "two").mkdir()
    other = await opened(tmp_path / "two")
    carrier = carrier_of(other)

    for row in await carrier_of(system).rows():
        assert carrier.place_row(row) == "added"
    await carrier.write("import")

    assert on_disk(tmp_path / "two") == ((REGION,), (PORT,))


# ── a crash in between ───────────────────────────────────────────────────────────────────────


async def test_an_entry_in_both_files_counts_once_and_leaves_both(tmp_path):
    write_facts(env_file(tmp_path), PORT, REGION)
    system = await archived(tmp_path, PORT)
    assert len(system.entries()) == 2

    await memory_command(system, ["remove", "env", PORT])

    assert on_disk(tmp_path) == ((REGION,), ())


async def archive_one(root):
    await archive(await opened(root), PORT)


async def undo_last(root):
    await memory_command(await opened(root), ["undo"])


@pytest.mark.slow
@pytest.mark.parametrize("back", [False, True])
def test_a_move_killed_at_any_point_keeps_the_entry(tmp_path, back):
    for at in range(1, 160):
        root = tmp_path / str(at)
        write_facts(env_file(root), PORT, REGION)
        if back:
            asyncio.run(archive_one(root))
        code = killed(undo_last if back else archive_one, root, at)
        standing, kept = on_disk(root)
        assert REGION in standing
        assert PORT in (*standing, *kept)
        if code == 0:
            break

    assert code == 0
    assert (PORT in standing) == back


# ── for any story ────────────────────────────────────────────────────────────────────────────

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "archive", "archive", "replace", "remove"]),
        st.integers(min_value=0, max_value=99),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.slow
@examples(max_examples=share(30), deadline=None)
@given(operations=STEPS)
def test_undoing_and_redoing_every_step_restores_each_state(operations):
    async def check(root):
        config = settings(merge_on_write=False, facts_limit_env=100_000)
        system = await opened(root, config=config)
        states, undone = [on_disk(root)], []
        for number, (what, which) in enumerate(operations):
            texts = [entry.text for entry in system.entries()]
            one = [texts[which % len(texts)]] if texts and what != "add" else []
            new = [f"item{number} word{number}"] if what in ("add", "replace") or not one else []
            await memory_command(system, [what if one else "add", "env", *one, *new])
            if system.history.tail(1).changes and on_disk(root) != states[-1]:
                undone.append(await last_id(system))
                states.append(on_disk(root))
        redo = []
        for change, before in zip(undone[::-1], states[-2::-1], strict=True):
            await memory_command(system, ["undo", change])
            redo.append(await last_id(system))
            assert on_disk(root) == before
        for change, after in zip(redo[::-1], states[1:], strict=True):
            await memory_command(system, ["undo", change])
            assert on_disk(root) == after

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))
