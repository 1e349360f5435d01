"""What may not hold any more: cited code that has changed, days that have passed; and what stood
on an earlier day."""

import json
import random
from datetime import timedelta

import pytest

from kode.errors import ConfigError, MemoryRefused, ToolError
from kode.memory import history, stale
from kode.memory.commands import memory_command
from tests.memory.journal import life as journal_life
from tests.memory.life import NOON, opened, settings, use, user_file
from tests.memory.notes import life as notes_life
from tests.memory.vault import life as vault_life

FACTS = 150
EDITS = 100


def code(root, number):
    """A file of each fact's own: three lines are cited, and stand between others."""
    lines = ["import app", "", *(f"value_{number}_{n} = {n}" for n in range(3)), "", "end = True"]
    (root / f"m{number}.py").write_text("\n".join(lines))


def edit(root, number, rng):
    """Changes what is cited."""
    path = root / f"m{number}.py"
    lines = path.read_text().split("\n")
    match rng.choice(["change", "remove", "insert", "empty", "delete"]):
        case "change":
            lines[rng.randrange(2, 5)] += "0"
        case "remove":
            del lines[rng.randrange(2, 5)]
        case "insert":
            lines.insert(rng.randrange(3, 5), "between = 1")
        case "empty":
            lines = []
        case "delete":
            path.unlink()
            return
    path.write_text("\n".join(lines))


def leave(root, number, rng):
    """Changes the file, and not what is cited."""
    path = root / f"m{number}.py"
    lines = path.read_text().split("\n")
    match rng.choice(["nothing", "above", "below", "spaces"]):
        case "above":
            lines[:0] = ["# a licence", "# of two lines"]
        case "below":
            lines += ["more = 1"]
        case "spaces":
            lines[3] += "  "
    path.write_text("\n".join(lines))


async def _tiered(root):
    system = await opened(root, config=settings(facts_limit_user=100_000, merge_on_write=False))
    for number in range(FACTS):
        where = f"m{number}.py:3-5"
        await use(system, action="add", target="user", content=f"fact {number}.", source=where)

    async def shown():
        return (await system.inject("start")).system

    return system, shown


async def _vault(root):
    system = await vault_life.opened(root)
    for number in range(FACTS):
        entry, where = f"- fact {number}.", f"m{number}.py:3-5"
        await vault_life.use(
            system, "memory_append", path="facts/tools.md", entry=entry, source=where
        )

    async def shown():
        return await vault_life.use(system, "memory_read", path="facts/tools.md")

    return system, shown


async def _notes(root):
    system = await notes_life.opened(root)
    for number in range(FACTS):
        where = f"m{number}.py:3-5"
        await notes_life.keep(system, f"fact {number}.", source=where)

    async def shown():
        notes = {note.id: note.content for note in notes_life.active(system)}
        found = stale.doubts(system.ledger, system.project, NOON.date())
        return "\n".join(f"{d.mark}{notes[place[1]]}" for place, d in found.items())

    return system, shown


@pytest.mark.slow
@pytest.mark.parametrize("life", [_tiered, _vault, _notes])
async def test_a_hundred_edits_are_all_marked_and_nothing_else(tmp_path, life):
    rng = random.Random(7)
    for number in range(FACTS):
        code(tmp_path, number)
    _, shown = await life(tmp_path)
    edited = set(rng.sample(range(FACTS), EDITS))
    assert "may be stale" not in (await shown()).lower()

    for number in range(FACTS):
        (edit if number in edited else leave)(tmp_path, number, rng)

    text = await shown()
    marked = {
        n for n in range(FACTS) if f"m{n}.py:3-5 changed" in text or f"m{n}.py:3-5 is" in text
    }
    assert marked == edited


async def test_the_mark_stands_before_the_fact_and_in_searches(tmp_path):
    code(tmp_path, 1)
    system = await opened(tmp_path)
    await use(system, action="add", target="user", content="one fact", source="m1.py:3-5")
    (tmp_path / "m1.py").write_text("")

    mark = "[may be stale: m1.py:3-5 changed] one fact"

    assert mark in (await system.inject("start")).system
    assert mark in await use(system, action="read")
    assert mark in (await system.search("one fact", 3))[0].text
    assert mark in (await system.snapshot())[0].content
    assert user_file(tmp_path).read_text() == "one fact"
    assert "(may be stale: m1.py:3-5 changed)" in await memory_command(system, ["show"])


async def test_notes_are_marked_where_they_are_shown(tmp_path):
    code(tmp_path, 1)
    system = await notes_life.opened(tmp_path)
    await notes_life.use(
        system,
        "remember",
        content="a rule of the code",
        kind="rule",
        evidence=["it says so"],
        source="m1.py:3-5",
    )
    (tmp_path / "m1.py").write_text("")

    mark = "[may be stale: m1.py:3-5 changed] a rule of the code"

    assert mark in (await system.inject("start")).system
    assert mark in await notes_life.use(system, "recall", query="rule code")


async def test_a_fact_that_is_cited_anew_holds_again(tmp_path):
    code(tmp_path, 1)
    system = await opened(tmp_path)
    await use(system, action="add", target="user", content="one fact", source="m1.py:3-5")
    (tmp_path / "m1.py").write_text("new = 1")

    told = await use(system, action="add", target="user", content="one fact", source="m1.py:1")

    assert "Confirmed in user" in told
    assert "stale" not in (await system.inject("start")).system
    why = await memory_command(system, ["why", "one fact"])
    assert "confirm " in why
    assert "from m1.py:1 (unchanged since)" in why
    await memory_command(system, ["undo"])
    assert "stale: m1.py:3-5" in (await system.inject("start")).system


async def test_another_projects_code_is_not_looked_for_here(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    code(here, 1)
    system = await opened(tmp_path, cwd=here, project_root=here)
    await use(system, action="add", target="user", content="one fact", source="m1.py:3-5")

    elsewhere = await opened(tmp_path, cwd=there, project_root=there)

    assert "one fact" in (await elsewhere.inject("start")).system
    assert "stale" not in (await elsewhere.inject("start")).system


async def test_a_history_is_read_once_and_then_where_it_grew(tmp_path, monkeypatch):
    code(tmp_path, 1)
    system = await opened(tmp_path, config=settings(facts_limit_user=100_000))
    await use(system, action="add", target="user", content="one fact", source="m1.py:3-5")
    await memory_command(system, ["add", "user", "another"])
    await system.inject("start")
    parsed = []
    read = history._read
    monkeypatch.setattr(history, "_read", lambda line: parsed.append(line) or read(line))

    await system.inject("start")
    assert parsed == []
    await memory_command(system, ["add", "user", "a third"])
    await system.inject("start")

    assert len(parsed) == 1


async def test_a_fact_with_a_last_day_is_shown_until_then(tmp_path):
    now = NOON
    system = await opened(tmp_path, now=lambda: now)
    await use(system, action="add", target="user", content="is off", until="2026-03-06")
    await memory_command(system, ["add", "user", "away", "--until", "2026-03-07"])

    now = NOON + timedelta(days=5)
    assert "off\n\naway" in (await system.inject("start")).system
    now = NOON + timedelta(days=6)
    assert "off" not in (await system.inject("start")).system
    now = NOON + timedelta(days=7)
    assert (await system.inject("start")).system == ""

    shown = await memory_command(system, ["show"])
    assert "until 2026-03-06" in shown
    assert "holds until 2026-03-06" in await memory_command(system, ["why", "off"])


@pytest.mark.parametrize(
    ("said", "day"),
    [
        ("yesterday", "2026-02-28"),
        ("today", "2026-03-01"),
        ("2 days ago", "2026-02-27"),
        ("last month", "2026-02-28"),
        ("this week", "2026-03-01"),
    ],
)
def test_a_past_day_is_said_as_in_a_search(said, day):
    assert stale.day_of(said, "--as-of", NOON).isoformat() == day


@pytest.mark.parametrize("day", ["Friday", "2026-3-6", "2026-02-30", "06.03.2026"])
async def test_an_invalid_day_is_refused(tmp_path, day):
    system = await opened(tmp_path)

    with pytest.raises(ToolError):
        await use(system, action="add", target="user", content="is off", until=day)
    with pytest.raises(MemoryRefused):
        await memory_command(system, ["show", "--as-of", day])

    assert not user_file(tmp_path).exists()


async def test_a_system_without_last_days_says_so(tmp_path):
    system = await vault_life.opened(tmp_path)

    with pytest.raises(ConfigError, match="has no --until"):
        await memory_command(system, ["add", "user", "off", "--until", "2026-03-06"])


def date_changes(system):
    """Has the changes be of the first, the second, ... of January."""
    path = system.history.path
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for day, row in enumerate(rows, 1):
        row["at"] = f"2026-01-{day:02}T12:00:00+00:00"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("life", "target", "prefix"),
    [
        (opened, "user", ""),
        (vault_life.opened, "tools", "- "),
        (journal_life.opened, "memory", "- "),
        (notes_life.opened, "note", ""),
    ],
)
async def test_the_entries_of_an_earlier_day_are_shown(tmp_path, life, target, prefix):
    system = await life(tmp_path)
    await memory_command(system, ["add", target, "likes tabs"])
    await memory_command(system, ["add", target, "has a cat"])
    await memory_command(system, ["undo"])
    await memory_command(system, ["add", target, "lives in Lisbon"])
    date_changes(system)

    async def on(day):
        shown = await memory_command(system, ["show", "--as-of", f"2026-01-{day:02}"])
        lines = shown.splitlines()
        return sorted(
            line.partition('"')[2].rstrip('"') for line in lines if '"I am kode' not in line
        )

    tabs, cat, lisbon = f"{prefix}likes tabs", f"{prefix}has a cat", f"{prefix}lives in Lisbon"
    assert await on(1) == [tabs]
    assert await on(2) == [cat, tabs]
    assert await on(3) == [tabs]
    assert await on(4) == sorted([tabs, lisbon])
