"""`kode memory why`: the chain of an entry, back to who said it."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from kode.errors import MemoryRefused, ToolError
from kode.memory import lineage, standing
from kode.memory.change import Author, Change
from kode.memory.commands import memory_command
from kode.memory.journal.files import HISTORY, block_of
from kode.memory.places import whole
from kode.memory.tiered.episode_files import Episode, render
from tests.memory.journal import life as journal_life
from tests.memory.life import (
    NOON,
    OTHER_SESSION,
    SESSION,
    opened,
    settings,
    turn,
    use,
    user_file,
    write_facts,
)
from tests.memory.notes import life as notes_life
from tests.memory.replies import Replies
from tests.memory.vault import life as vault_life


@dataclass
class Judge:
    """Says the word that it is set to."""

    word: str = "distinct"

    async def __call__(self, system: str, prompt: str, max_output_tokens: int) -> str:
        return self.word


@dataclass(frozen=True)
class Origin:
    """What `why` has to say of one entry."""

    text: str
    who: str
    turn: int | None = None
    words: str = ""
    source: str = ""
    made_of: tuple[str, ...] = ()


def origin_of(system, text):
    """What it says."""
    (entry,) = lineage.find(system.entries(), text)
    link = system.ledger.statement(entry)
    change = link.change
    assert change is not None, text
    assert change.session in (SESSION, None)
    return Origin(
        text=text,
        who=change.who,
        turn=change.turn,
        words=change.words,
        source=change.source,
        made_of=tuple(sorted(parent.entry.text for parent in link.made_of)),
    )


def large(**more):
    return settings(facts_limit_user=100_000, facts_limit_env=100_000, **more)


def code(root, lines=100):
    (root / "app.py").write_text("\n".join(f"line {n}" for n in range(1, lines + 1)))


def imported(root, rows):
    path = root / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.slow
async def test_two_hundred_mixed_entries_all_have_the_right_chain(tmp_path):
    roots = [tmp_path / name for name in ("tiered", "vault", "journal", "notes")]
    for root in roots:
        root.mkdir()
        code(root)
    tiered, vault, journal, notes = roots

    checked = 0
    for system, origins in (
        await _tiered(tiered),
        await _vault(vault),
        await _journal(journal),
        await _notes(notes),
    ):
        assert [origin_of(system, one.text) for one in origins] == origins
        checked += len(origins)

    assert checked >= 200


async def _tiered(root):
    judge, origins, number = Judge(), [], 0
    system = await opened(root, model=judge, config=large())
    for number in range(1, 11):
        words = f"please note matter {number}: mu{number} is on"
        await system.recall(turn(number, words))
        said = f"alpha{number} by the model"
        await use(system, action="add", target="user", content=said)
        origins.append(Origin(said, "model", number, words))

        cited = f"beta{number} of the code"
        where = f"app.py:{number}-{number + 2}"
        await use(system, action="add", target="user", content=cited, source=where)
        origins.append(Origin(cited, "model", number, words, where))

        typed = f"gamma{number} typed"
        await memory_command(system, ["add", "user", typed])
        origins.append(Origin(typed, "user", number))

        old, new = f"delta{number} before", f"delta{number} after"
        await use(system, action="add", target="user", content=old)
        await memory_command(system, ["replace", "user", old, new])
        origins.append(Origin(new, "user", number, made_of=(old,)))

        first, second = f"epsilon{number} mu{number} is off", f"epsilon{number} mu{number} is on"
        await memory_command(system, ["add", "user", first])
        judge.word = "update"
        await use(system, action="add", target="user", content=second)
        judge.word = "distinct"
        origins.append(Origin(second, "model", number, words, made_of=(first, second)))
    rows = [
        {"system": "tiered", "place": "facts/user.md", "content": f"zeta{n} imported"}
        for n in range(10)
    ]
    path = imported(root, rows)
    await memory_command(system, ["import", path])
    origins += [Origin(row["content"], "import", source=path) for row in rows]
    return system, origins


async def _vault(root):
    origins = []
    system = await vault_life.opened(root)
    await vault_life.use(system, "memory_write", path="facts/tools.md", content="# tools\n")
    for number in range(1, 11):
        words = f"please note matter {number}"
        await system.recall(turn(number, words))
        said, where = f"- alpha{number}: by the model", f"app.py:{number}"
        await vault_life.use(
            system, "memory_append", path="facts/tools.md", entry=said, source=where
        )
        entry = f"## Episode {number}\n- Summary: did {number}"
        await vault_life.use(system, "memory_append", path="episodes/2026-03.md", entry=entry)
        origins.append(Origin(entry, "model", number, words))

        typed = f"- gamma{number}: typed"
        await memory_command(system, ["add", "tools", typed.removeprefix("- ")])
        origins.append(Origin(typed, "user", number))

        patched = f"- alpha{number}: patched"
        patches = [{"oldText": said, "newText": patched}]
        await vault_life.use(system, "memory_patch", path="facts/tools.md", patches=patches)
        origins.append(Origin(patched, "model", number, words, made_of=(said,)))

        kept = f"- beta{number}: of the code"
        await vault_life.use(
            system, "memory_append", path="facts/tools.md", entry=kept, source=where
        )
        origins.append(Origin(kept, "model", number, words, where))
    return system, origins


async def _journal(root):
    origins, at = [], 0
    answers = []

    def reply(request):
        return answers[-1]

    system = await journal_life.opened(root, ask_reply=Replies([reply]))
    for number in range(1, 11):
        words = f"From now on it is delta{number} after"
        asked = turn(number, words)
        await system.recall(asked)
        typed = f"- gamma{number} typed"
        await memory_command(system, ["add", "memory", typed])
        old = f"- delta{number} before"
        await memory_command(system, ["add", "memory", old])
        new, more = f"- delta{number} after", f"- alpha{number} is new"
        line = journal_life.memory_of(root).split("\n").index(old) + 1
        change = {"fact": new[2:], "words": words, "how": "changes", "line": line}
        answers.append(journal_life.answer(f"entry {number} of the log", change, more[2:]))
        at += 2
        said = journal_life.messages(at)
        await system.after_turn(replace(asked, messages=said[-2:]))
        await system.before_drop(said, "reset")
        origins.append(Origin(typed, "user", number))
        origins.append(Origin(new, "extraction", number, words, made_of=(old,)))
        origins.append(Origin(more, "extraction", number))
        origins.append(Origin(f"entry {number} of the log", "consolidation", number))
    rows = [
        {
            "system": "journal",
            "place": f"journal/{HISTORY}",
            "content": block_of(f"zeta{n} x", datetime(2026, 1, n, tzinfo=UTC)).strip(),
        }
        for n in range(1, 21)
    ]
    path = imported(root, rows)
    await memory_command(system, ["import", path])
    origins += [Origin(f"zeta{n} x", "import", source=path) for n in range(1, 21)]
    return system, origins


async def _notes(root):
    origins = []
    clock = notes_life.Clock()
    system = await notes_life.opened(root, clock=clock)
    for number in range(1, 11):
        clock.pass_(milliseconds=5)
        words = f"please note matter {number}"
        await system.recall(turn(number, words))
        said, where = f"alpha{number} by the model", f"app.py:{number}-{number + 1}"
        await notes_life.use(system, "remember", content=said, source=where)
        origins.append(Origin(said, "model", number, words, where))

        typed = f"gamma{number} typed"
        await memory_command(system, ["add", "note", typed])
        origins.append(Origin(typed, "user", number))

        old, new = f"delta{number} before", f"delta{number} after"
        (note,) = await notes_life.keep(system, old)
        await notes_life.use(system, "update_memory", id=note.id, content=new)
        origins.append(Origin(new, "model", number, words, made_of=(old,)))

        waits = f"theta{number} from outside"
        (note,) = await notes_life.keep(system, waits, untrusted="waits")
        await memory_command(system, ["approve", note.id])
        origins.append(Origin(waits, "user", number, made_of=(f"{waits} (waits for approval)",)))
    rows = [{"content": f"zeta{n} imported", "kind": "log"} for n in range(10)]
    path = imported(root, rows)
    await memory_command(system, ["import", path])
    origins += [Origin(row["content"], "import", source=path) for row in rows]
    return system, origins


async def test_it_names_each_link_with_what_opens_it(tmp_path):
    code(tmp_path)
    judge = Judge()
    system = await opened(tmp_path, model=judge)
    await memory_command(system, ["add", "user", "the port is 80"])
    await system.recall(turn(3, "use port 81 from now on"))
    judge.word = "update"
    await use(system, action="add", target="user", content="the port is 81", source="app.py:7-9")

    told = await memory_command(system, ["why", "port", "is", "81"])

    assert '"the port is 81"  ·  facts/user.md\n  supersede ' in told
    assert "by the model, " in told
    assert f"session {SESSION} turn 3" in told
    assert 'you had asked: "use port 81 from now on"' in told
    assert "from app.py:7-9 (unchanged since)" in told
    assert '    "the port is 80"\n      add ' in told
    assert "by you" in told
    assert told.endswith(f"open: kode session show {SESSION}")


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        (["new first", *(f"line {n}" for n in range(1, 101))], "unchanged since"),
        ([f"line {n}" if n != 8 else "edited" for n in range(1, 101)], "changed since"),
        ([f"line {n}" for n in range(1, 7)], "changed since"),
        (None, "no longer there"),
    ],
)
async def test_it_says_what_has_become_of_cited_code(tmp_path, lines, state):
    code(tmp_path)
    system = await opened(tmp_path)
    await use(system, action="add", target="user", content="a fact", source="app.py:7-9")
    if lines is None:
        (tmp_path / "app.py").unlink()
    else:
        (tmp_path / "app.py").write_text("\n".join(lines))

    assert f"from app.py:7-9 ({state})" in await memory_command(system, ["why", "a fact"])


@pytest.mark.parametrize(
    "source", ["app.py", "app.py:0", "app.py:9-7", "app.py:101", "../out.py:1", "no.py:1", "x:1-2"]
)
async def test_code_that_is_not_there_cannot_be_cited(tmp_path, source):
    code(tmp_path)
    system = await opened(tmp_path)

    with pytest.raises(ToolError, match="Nothing was changed"):
        await use(system, action="add", target="user", content="a fact", source=source)

    assert not user_file(tmp_path).exists()


async def test_several_entries_are_listed_and_none_is_an_error(tmp_path):
    write_facts(user_file(tmp_path), "likes tabs", "likes tea")
    system = await opened(tmp_path)

    told = await memory_command(system, ["why", "likes"])

    assert told.startswith("2 entries hold 'likes'")
    assert '"likes tabs"' in told
    assert '"likes tea"' in told
    with pytest.raises(MemoryRefused, match="No entry holds 'zeppelin'"):
        await memory_command(system, ["why", "zeppelin"])


async def test_a_handwritten_fact_has_no_recorded_origin(tmp_path):
    write_facts(user_file(tmp_path), "likes tabs")
    system = await opened(tmp_path)

    assert "not recorded" in await memory_command(system, ["why", "tabs"])


async def test_an_older_history_is_followed_as_far_as_it_goes(tmp_path):
    write_facts(user_file(tmp_path), "likes tabs")
    system = await opened(tmp_path)
    row = {
        "kind": "replace",
        "target": "facts/user.md",
        "system": "tiered",
        "who": "model",
        "before": ["likes spaces"],
        "after": ["likes tabs"],
        "id": "aabb0011",
        "at": "2026-01-01T10:00:00+00:00",
    }
    system.history.path.write_text(json.dumps(row) + "\n")

    told = await memory_command(system, ["why", "tabs"])

    assert "replace aabb0011 by the model, 2026-01-01 10:00 UTC" in told
    assert '"likes spaces"\n      not recorded' in told


async def test_a_change_is_explained_by_its_id(tmp_path):
    system = await opened(tmp_path)
    await memory_command(system, ["add", "user", "likes tabs"])
    (change,) = system.history.tail(1).changes

    assert "likes tabs" in await memory_command(system, ["why", change.id])


async def test_undone_and_redone_changes_are_no_links(tmp_path):
    system = await opened(tmp_path)
    await memory_command(system, ["add", "user", "likes tabs"])
    await memory_command(system, ["replace", "user", "likes tabs", "likes tea"])
    await memory_command(system, ["undo"])

    told = await memory_command(system, ["why", "tabs"])

    assert "add " in told
    assert "undo " not in told
    assert "replace " not in told


async def test_a_text_restored_by_undo_names_its_merge(tmp_path):
    judge = Judge("update")
    system = await opened(tmp_path, model=judge)
    await memory_command(system, ["add", "user", "the port is 80"])
    await system.recall(turn(1, "use port 81"))
    await use(system, action="add", target="user", content="the port is 81")
    await memory_command(system, ["undo"])

    assert "supersede " in await memory_command(system, ["why", "port is 81"])


async def test_an_approved_episode_names_the_approval_and_the_session(tmp_path):
    system = await opened(tmp_path)
    episode = Episode(
        session_id=OTHER_SESSION,
        turns=4,
        created_at=NOON.isoformat(),
        updated_at=NOON.isoformat(),
        narrative="fixed the parser",
        tainted=True,
    )
    author = Author(who="extraction", session=OTHER_SESSION, turn=4)
    name, state = f"episodes/{OTHER_SESSION}.md", whole(render(episode))
    await standing.rewrite(system.history, name, lambda _: state, author, "episode")
    await memory_command(system, ["approve", OTHER_SESSION])

    told = await memory_command(system, ["why", OTHER_SESSION])

    assert "approve " in told
    assert "by you" in told
    assert "by a model that summed up, " in told
    assert f"session {OTHER_SESSION} turn 4" in told


async def test_a_chain_of_many_links_ends(tmp_path):
    system = await opened(tmp_path)
    rows = []
    for n in range(2_000):
        before = (f"fact {n - 1}",) if n else ()
        change = Change(
            kind="replace" if n else "add",
            target="facts/user.md",
            system="tiered",
            who="user",
            before=before,
            after=(f"fact {n}",),
        )
        row = {key: value for key, value in vars(change).items() if value}
        rows.append(json.dumps(row) + "\n")
    system.history.path.parent.mkdir()
    system.history.path.write_text("".join(rows))
    write_facts(user_file(tmp_path), "fact 1999")

    assert '"fact 1999"' in await memory_command(system, ["why", "fact 1999"])


async def test_a_sensitive_note_is_only_named(tmp_path):
    system = await notes_life.opened(tmp_path)
    (note,) = await notes_life.keep(system, "the pin is 9876", sensitivity="sensitive")

    told = await memory_command(system, ["why", note.id])

    assert "a sensitive note" in told
    assert "9876" not in told


async def test_an_entry_that_was_superseded_or_removed_says_by_what(tmp_path):
    judge = Judge("update")
    system = await opened(tmp_path, model=judge)
    await memory_command(system, ["add", "user", "the port is 80"])
    await system.recall(turn(1, "use port 81"))
    await use(system, action="add", target="user", content="the port is 81")

    superseded = await memory_command(system, ["why", "port is 80"])
    await memory_command(system, ["remove", "user", "81"])
    removed = await memory_command(system, ["why", "port is 81"])

    assert superseded.startswith('"the port is 80"  ·  facts/user.md\n  add ')
    assert '\nsuperseded by "the port is 81": supersede ' in superseded
    assert "no longer there: remove " in removed


async def test_a_spoiled_row_of_the_history_stands_in_no_way(tmp_path):
    system = await notes_life.opened(tmp_path)
    spoiled = Change(
        kind="remember",
        target="notes/x",
        system="notes",
        who="model",
        after=("{spoiled",),
        source="app.py:1",
        source_hash="0@0",
    )
    system.history.append(spoiled)
    await memory_command(system, ["add", "note", "likes tabs"])

    assert "by you" in await memory_command(system, ["why", "tabs"])
    assert (await system.inject("start")).system == ""
    assert "undid" in await memory_command(system, ["undo"])


async def test_log_why_and_show_agree_on_what_was_undone(tmp_path):
    system = await opened(tmp_path)
    await memory_command(system, ["add", "user", "likes tabs"])
    (added,) = system.history.tail(1).changes
    await memory_command(system, ["undo"])
    (undone,) = system.history.tail(1).changes

    for told in (["log"], ["why", added.id]):
        lines = (await memory_command(system, told)).split("\n")
        assert any("undone" in line and undone.id in line for line in lines)
    assert added.id not in await memory_command(system, ["show"])
    assert undone.id in await memory_command(system, ["why", undone.id])

    await memory_command(system, ["undo", undone.id])

    (log,) = [
        line
        for line in (await memory_command(system, ["log"])).split("\n")
        if line.startswith(added.id)
    ]
    shown = await memory_command(system, ["show"])
    assert "undone" not in log + await memory_command(system, ["why", added.id])
    assert "(add by you, " in shown
