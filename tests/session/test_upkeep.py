import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kode import paths
from kode.errors import BusyError, SessionError
from kode.messages import text_of, user_message
from kode.session import log, upkeep
from kode.session.entries import MessageEntry, StateEntry, SystemEntry
from kode.session.plan import Plan
from kode.session.transcript import Transcript, as_json
from tests.session.stories import assert_sendable, reopened, session_of, story, whole_story
from tests.tables import for_each
from tests.undo.changes import change, undo_in


def shown_in(home: Path, session_id: str | None) -> list[dict[str, Any]]:
    return list(as_json(Transcript.read(paths.session_file(home, str(session_id))))["messages"])


def test_trim_keeps_the_last_messages_and_the_system_prompt(tmp_path: Path) -> None:
    turns = (step for n in "123" for step in (f"user {n}", f"answer re: {n}"))
    session = story(tmp_path, SystemEntry(sections={"kode": "sys"}), *turns)

    assert upkeep.trim_session(tmp_path, str(session.id), 3) == (3, 3)

    assert [one["content"] for one in shown_in(tmp_path, session.id)] == [
        "sys",
        "re: 2",
        "3",
        "re: 3",
    ]


@for_each("keep", [0, 1, 2, 3, 4, 5, 100])
def test_trim_never_leaves_half_a_tool_exchange(tmp_path: Path, keep: int) -> None:
    steps = ("user go", "asks a", "results a", "asks b c", "results b c", "answer done")
    session = story(tmp_path, *steps)
    before = session.path.read_bytes()

    kept, dropped = upkeep.trim_session(tmp_path, str(session.id), keep)

    assert (session.path.read_bytes() == before) == (keep == 100)
    loaded, repairs = reopened(tmp_path, session.id)
    assert (kept + dropped, kept <= keep, repairs) == (6, True, [])
    assert_sendable(loaded.messages)
    shown = shown_in(tmp_path, session.id)
    asked = {call["id"] for message in shown for call in message.get("tool_calls", ())}
    assert {m["tool_call_id"] for m in shown if m["role"] == "tool"} == asked


def test_a_fork_begins_like_its_origin_and_leaves_it_alone(tmp_path: Path) -> None:
    session = whole_story(tmp_path)
    Plan(paths.plan_file(tmp_path, session.header.id)).write("- [ ] one")
    before = session.path.read_bytes()

    forked = upkeep.fork_session(tmp_path, str(session.id))

    loaded, repairs = log.load(tmp_path, forked)
    loaded.append_message(user_message("go on"))
    loaded.close()
    assert repairs == []
    assert loaded.messages[:-1] == session.messages
    assert loaded.header.forked_from.session == session.id
    assert loaded.states == session.states
    assert Plan(paths.plan_file(tmp_path, forked)).text == "- [ ] one"
    assert session.path.read_bytes() == before


STATE = StateEntry(system="tiered", state={"buffer": ["2"]})
STEPS = ("user 1", "asks a b", "results b", "results a", "answer 1", "user 2", "answer 2", STATE)


@for_each(
    ("at", "last", "state"),
    [(1, 3, {}), (2, 3, {}), (3, 3, {}), (4, 4, {}), (6, 6, STATE.state)],
)
def test_a_fork_includes_all_results_and_what_the_turn_stored(
    tmp_path: Path, at: int, last: int, state: Mapping[str, object]
) -> None:
    session = story(tmp_path, *STEPS, "user 3")

    forked = upkeep.fork_session(tmp_path, str(session.id), session.entries[at].id[:8])

    loaded, repairs = reopened(tmp_path, forked)
    messages = [entry for entry in loaded.entries if isinstance(entry, MessageEntry)]
    assert (repairs, loaded.states.get("tiered", {})) == ([], state)
    assert messages[-1].id == session.entries[last].id


def test_a_fork_at_an_unknown_entry_explains_ids(tmp_path: Path) -> None:
    session = whole_story(tmp_path)

    for at in ("zzzz", ""):
        with pytest.raises(SessionError, match=f"No entries .* `kode session show {session.id}`"):
            upkeep.fork_session(tmp_path, str(session.id), at)


def test_delete_removes_a_session_and_what_lies_beside_it(tmp_path: Path) -> None:
    session, other = whole_story(tmp_path), whole_story(tmp_path)
    side = paths.session_folder(tmp_path, str(session.id)) / "outputs"
    side.mkdir(parents=True)
    (side / "x").write_text("x")

    upkeep.delete_session(tmp_path, str(session.id))

    left = {path.name for path in paths.sessions_folder(tmp_path).iterdir()}
    assert left == {f"{other.id}.jsonl", f"{other.id}.jsonl.end", "order", "order.end"}


def test_a_session_open_elsewhere_is_forked_and_not_touched(tmp_path: Path) -> None:
    session = story(tmp_path, "user one", "answer re: one", is_open=True)
    os.utime(session.path, (0, 0))

    forked = upkeep.fork_session(tmp_path, str(session.id))
    with pytest.raises(BusyError, match="in another kode"):
        upkeep.delete_session(tmp_path, str(session.id))
    cleaned = upkeep.cleanup(tmp_path, 30)
    (checked,) = upkeep.check(tmp_path, str(session.id), repair=True)

    assert [one["content"] for one in shown_in(tmp_path, forked)] == ["one", "re: one"]
    assert cleaned == ([], [session.id])
    assert checked.in_use
    assert session.path.exists()
    session.close()


def test_cleanup_removes_only_older_sessions(tmp_path: Path) -> None:
    old, young = (session_of(tmp_path, "x", age_s=days * 86_400) for days in (31, 29))
    other = paths.sessions_folder(tmp_path) / "keep-me.txt"
    other.write_text("mine")
    os.utime(other, (0, 0))

    assert upkeep.cleanup(tmp_path, 30, dry_run=True) == ([old], [])
    assert paths.session_file(tmp_path, old).exists()
    assert upkeep.cleanup(tmp_path, 30) == ([old], [])
    assert not paths.session_file(tmp_path, old).exists()
    assert paths.session_file(tmp_path, young).exists()
    assert other.read_text() == "mine"


def test_check_finds_faults_without_writing_and_repair_mends_them(tmp_path: Path) -> None:
    path = story(tmp_path, "user one", "answer re: one", "user two", "asks a").path
    lines = path.read_bytes().split(b"\n")
    damaged = b"\n".join([*lines[:3], b"\x00 garbage", *lines[3:-1], b'{"type":"mess'])
    path.write_bytes(damaged)

    (found,) = upkeep.check(tmp_path)
    untouched = path.read_bytes()
    (mended,) = upkeep.check(tmp_path, path.stem, repair=True)
    (clean,) = upkeep.check(tmp_path)

    assert len(found.faults) == 3
    assert untouched == damaged
    assert mended.repaired
    assert clean.faults == ()
    (aside,) = path.parent.glob("*.damaged-*")
    assert b"\x00 garbage" in aside.read_bytes()
    loaded, repairs = reopened(tmp_path, path.stem)
    assert repairs == []
    assert [text_of(m) for m in loaded.messages][:3] == ["one", "re: one", "two"]


def test_repair_drops_damage_and_keeps_what_a_newer_kode_wrote(tmp_path: Path) -> None:
    session = whole_story(tmp_path)
    path = session.path
    _first, rest = path.read_bytes().split(b"\n", 1)
    new = b'{"type":"hologram","id":"1"}\n'
    path.write_bytes(b"{nonsense\n" + rest + new + b"garbage\n" + rest)

    upkeep.check(tmp_path, repair=True)
    (checked,) = upkeep.check(tmp_path)

    header, entries, _ = log.read(path)
    assert path.read_bytes().endswith(rest + new)
    assert entries == session.entries
    assert header.id == path.stem
    assert ["hologram" in fault for fault in checked.faults] == [True]


@pytest.mark.parametrize("repair", [False, True])
def test_a_foreign_file_is_named_and_left_alone(tmp_path: Path, repair: bool) -> None:
    """Such as a note of that name, or a link to one: repair would make a session of it."""
    note, folder = tmp_path / "einkauf.txt", tmp_path / "sessions"
    note.write_text("Brot\nKäse\n")
    note.chmod(0o644)
    folder.mkdir()
    (folder / "20260102-030405-abcdef.jsonl").symlink_to(note)
    (folder / "20260102-030405-abcde0.jsonl").write_bytes(b"\x00\xff\n" * 3)

    checked = upkeep.check(tmp_path, repair=repair)

    assert [(one.repaired, bool(one.faults)) for one in checked] == [(False, True)] * 2
    assert (note.read_text(), note.stat().st_mode & 0o777) == ("Brot\nKäse\n", 0o644)
    assert (folder / "20260102-030405-abcde0.jsonl").read_bytes() == b"\x00\xff\n" * 3
    assert len(list(folder.iterdir())) == 2


def test_a_check_finds_a_lost_end_until_it_is_repaired(tmp_path: Path) -> None:
    path = whole_story(tmp_path).path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-3]))
    lost = str(sum(map(len, lines[-3:])))

    (first,), (second,) = upkeep.check(tmp_path), upkeep.check(tmp_path)
    (repaired,) = upkeep.check(tmp_path, repair=True)

    assert first == second
    assert lost in " ".join(first.faults)
    assert repaired.repaired
    assert upkeep.check(tmp_path) == [upkeep.Checked(id=path.stem)]


def test_a_check_covers_what_undo_needs(tmp_path: Path) -> None:
    session = whole_story(tmp_path)
    undo = undo_in(paths.undo_folder(paths.session_folder(tmp_path, str(session.id))))
    for turn, text in enumerate(("one", "two", "three")):
        change(undo, turn, tmp_path / "a.txt", text)
    journal = undo.journal
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], lines[1].replace(b"done", b"gone"), *lines[2:-1]]))
    next(undo.contents.folder.iterdir()).write_bytes(b"?")

    checks = [upkeep.check(tmp_path, repair=repair)[0] for repair in (False, True, False)]

    assert [len(checked.faults) for checked in checks] == [2, 2, 0]
    assert [checked.repaired for checked in checks] == [False, True, False]
    assert {path.read_bytes() for path in undo.folder.rglob("*.damaged-*")} > {b"?"}
