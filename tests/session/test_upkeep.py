import os
import time
from pathlib import Path

import pytest

from kode import paths
from kode.errors import BusyError, SessionError
from kode.messages import results_of, text_of, user_message
from kode.session import log, upkeep
from kode.session.entries import StateEntry
from kode.session.export import as_json
from kode.session.log import Session
from kode.session.plan import read_plan, write_plan
from kode.session.transcript import Transcript
from tests.session.stories import (
    answer,
    asks,
    assert_sendable,
    new_session,
    plain_turn,
    results,
    whole_story,
)
from tests.undo.changes import change, undo_in


def aged(session: Session, days: float) -> str:
    session.close()
    assert session.path is not None
    then = time.time() - days * 86_400
    os.utime(session.path, (then, then))
    return str(session.id)


def spoken(home: Path, session_id: str) -> list[str]:
    header, entries, _ = log.read(paths.session_file(home, session_id))
    return [
        f"{message['role']}: {message['content']}"
        for message in as_json(Transcript(header=header, entries=entries))["messages"]
    ]


def test_trim_keeps_the_last_messages_and_the_system_prompt(tmp_path: Path) -> None:
    from kode.session.entries import SystemEntry

    session = new_session(tmp_path)
    session.append(SystemEntry(text="sys"))
    for task in ("one", "two", "three"):
        plain_turn(session, task)
    session.close()

    counts = upkeep.trim(tmp_path, str(session.id), 3)

    assert counts == (3, 3)
    assert spoken(tmp_path, str(session.id)) == [
        "system: sys",
        "assistant: re: two",
        "user: three",
        "assistant: re: three",
    ]


@pytest.mark.parametrize("keep", range(8))
def test_trim_never_leaves_half_a_tool_exchange(tmp_path: Path, keep: int) -> None:
    session = new_session(tmp_path)
    session.append_message(user_message("go"))
    session.append_message(asks("a"))
    session.append_message(results("a"))
    session.append_message(asks("b", "c"))
    session.append_message(results("b", "c"))
    session.append_message(answer("done"))
    session.close()

    kept, dropped = upkeep.trim(tmp_path, str(session.id), keep)

    loaded, repairs = log.load(tmp_path, str(session.id))
    loaded.close()
    assert kept + dropped == 6
    assert kept <= keep
    assert_sendable(loaded.messages)
    assert repairs == []
    shown = as_json(Transcript(header=loaded.header, entries=loaded.entries))["messages"]
    asked = {call["id"] for message in shown for call in message.get("tool_calls", ())}
    assert {m["tool_call_id"] for m in shown if m["role"] == "tool"} == asked


def test_trimming_to_more_than_there_is_changes_nothing(tmp_path: Path) -> None:
    session = whole_story(tmp_path)
    assert session.path is not None
    before = session.path.read_bytes()

    assert upkeep.trim(tmp_path, str(session.id), 100) == (7, 0)

    assert session.path.read_bytes() == before


def test_a_fork_begins_like_its_origin_and_leaves_it_alone(tmp_path: Path) -> None:
    session = whole_story(tmp_path)
    assert session.path is not None
    before = session.path.read_bytes()

    forked = upkeep.fork(tmp_path, str(session.id))

    loaded, repairs = log.load(tmp_path, forked)
    loaded.append_message(user_message("go on"))
    loaded.close()
    assert repairs == []
    assert loaded.messages[:-1] == session.messages
    assert loaded.header.forked_from is not None
    assert loaded.header.forked_from.session == session.id
    assert loaded.state("tiered") == session.state("tiered")
    assert session.path.read_bytes() == before


def test_a_fork_at_a_call_takes_its_results_along(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    session.append_message(user_message("go"))
    call = session.append_message(asks("a"))
    session.append_message(results("a"))
    session.append_message(answer("done"))
    session.close()

    forked = upkeep.fork(tmp_path, str(session.id), call.id[:6])

    loaded, repairs = log.load(tmp_path, forked)
    loaded.close()
    assert repairs == []
    assert [r.text for r in results_of(loaded.messages[-1])] == ["done"]
    assert len(loaded.messages) == 3


def test_a_fork_at_a_turns_end_keeps_its_memory(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    answers = []
    for number in (1, 2, 3):
        session.append_message(user_message(f"turn {number}"))
        answers.append(session.append_message(answer(f"answer {number}")))
        session.append(StateEntry(system="tiered", state={"buffer": [f"turn {number}"]}))
    session.close()

    forked = upkeep.fork(tmp_path, str(session.id), answers[1].id)

    loaded, _ = log.load(tmp_path, forked)
    loaded.close()
    assert loaded.state("tiered") == {"buffer": ["turn 2"]}
    assert loaded.turns == 2


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_fork_within_an_exchange_includes_all_its_results(tmp_path: Path, at: int) -> None:
    session = new_session(tmp_path)
    session.append_message(user_message("go"))
    session.append_message(asks("a", "b"))
    session.append_message(results("b", text="2"))
    session.append_message(results("a", text="1"))
    session.append_message(answer("done"))
    session.close()

    forked = upkeep.fork(tmp_path, str(session.id), session.entries[at].id)

    loaded, repairs = log.load(tmp_path, forked)
    loaded.close()
    assert repairs == []
    assert [r.text for r in results_of(loaded.messages[-1])] == ["1", "2"]


def test_a_session_open_elsewhere_can_be_forked(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    plain_turn(session, "one")

    forked = upkeep.fork(tmp_path, str(session.id))

    assert spoken(tmp_path, forked) == ["user: one", "assistant: re: one"]
    session.close()


def test_a_fork_at_an_unknown_entry_explains_ids(tmp_path: Path) -> None:
    session = whole_story(tmp_path)

    with pytest.raises(SessionError, match=f"No entries .* kode session show {session.id}|No ent"):
        upkeep.fork(tmp_path, str(session.id), "zzzz")
    with pytest.raises(SessionError):
        upkeep.fork(tmp_path, str(session.id), "")


def test_delete_removes_a_session_and_what_lies_beside_it(tmp_path: Path) -> None:
    session = whole_story(tmp_path)
    side = paths.session_folder(tmp_path, str(session.id)) / "outputs"
    side.mkdir(parents=True)
    (side / "x").write_text("x")
    other = whole_story(tmp_path)

    upkeep.delete(tmp_path, str(session.id))

    left = {path.name for path in paths.sessions_folder(tmp_path).iterdir()}
    assert left == {f"{other.id}.jsonl", f"{other.id}.jsonl.end", "order", "order.end"}


def test_a_session_open_elsewhere_is_not_deleted(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    plain_turn(session, "one")

    with pytest.raises(BusyError, match="open in another kode"):
        upkeep.delete(tmp_path, str(session.id))

    assert session.path is not None
    assert session.path.exists()
    session.close()


def test_cleanup_removes_only_older_sessions(tmp_path: Path) -> None:
    old = new_session(tmp_path)
    plain_turn(old, "old")
    old_id = aged(old, 31)
    young = new_session(tmp_path)
    plain_turn(young, "young")
    young_id = aged(young, 29)
    other = paths.sessions_folder(tmp_path) / "keep-me.txt"
    other.write_text("mine")
    os.utime(other, (0, 0))

    planned = upkeep.cleanup(tmp_path, 30, dry_run=True)
    still_there = paths.session_file(tmp_path, old_id).exists()
    done = upkeep.cleanup(tmp_path, 30)

    assert planned.ids == done.ids == (old_id,)
    assert still_there
    assert not paths.session_file(tmp_path, old_id).exists()
    assert paths.session_file(tmp_path, young_id).exists()
    assert other.read_text() == "mine"


def test_cleanup_skips_sessions_in_use_and_says_so(tmp_path: Path) -> None:
    first = new_session(tmp_path)
    plain_turn(first, "old")
    session_id = aged(first, 40)
    session, _ = log.load(tmp_path, session_id)

    done = upkeep.cleanup(tmp_path, 30)

    assert (done.ids, done.in_use) == ((), (session_id,))
    session.close()


def test_check_finds_faults_without_writing_and_repair_mends_them(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    plain_turn(session, "one")
    session.append_message(user_message("two"))
    session.append_message(asks("a"))
    session.close()
    assert session.path is not None
    lines = session.path.read_bytes().split(b"\n")
    damaged = b"\n".join([*lines[:4], b"\x00 garbage", *lines[4:-1], b'{"type":"mess'])
    session.path.write_bytes(damaged)

    (found,) = upkeep.check(tmp_path)
    untouched = session.path.read_bytes()
    (mended,) = upkeep.check(tmp_path, str(session.id), repair=True)
    (clean,) = upkeep.check(tmp_path)

    assert len(found.faults) == 3
    assert untouched == damaged
    assert mended.repaired
    assert clean.faults == ()
    (aside,) = session.path.parent.glob("*.damaged-*")
    assert b"\x00 garbage" in aside.read_bytes()
    loaded, repairs = log.load(tmp_path, str(session.id))
    loaded.close()
    assert repairs == []
    assert [text_of(m) for m in loaded.messages][:3] == ["one", "re: one", "two"]


def test_repair_keeps_entries_of_a_newer_kode(tmp_path: Path) -> None:
    session = whole_story(tmp_path)
    assert session.path is not None
    with session.path.open("ab") as file:
        file.write(b'{"type":"hologram","id":"1"}\ngarbage\n')

    upkeep.check(tmp_path, repair=True)

    data = session.path.read_bytes()
    assert b"hologram" in data
    assert b"garbage" not in data


def test_a_lost_first_line_is_written_anew_by_repair(tmp_path: Path) -> None:
    session = whole_story(tmp_path)
    assert session.path is not None
    _, rest = session.path.read_bytes().split(b"\n", 1)
    session.path.write_bytes(b"{nonsense\n" + rest)

    upkeep.check(tmp_path, repair=True)
    (clean,) = upkeep.check(tmp_path)

    assert clean.faults == ()
    assert log.read(session.path)[1] == session.entries


def test_a_session_in_use_is_not_checked(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    plain_turn(session, "one")

    (checked,) = upkeep.check(tmp_path, repair=True)

    assert checked.in_use
    session.close()


@pytest.mark.parametrize("repair", [False, True])
def test_a_foreign_file_is_named_and_left_alone(tmp_path: Path, repair: bool) -> None:
    """Such as a note of that name, or a link to one: repair would make a session of it."""
    note = tmp_path / "einkauf.txt"
    note.write_text("Brot\nKäse\n")
    note.chmod(0o644)
    folder = tmp_path / "sessions"
    folder.mkdir(exist_ok=True)
    (folder / "20260102-030405-abcdef.jsonl").symlink_to(note)
    (folder / "20260102-030405-abcde0.jsonl").write_bytes(b"\x00\xff\n" * 3)

    checked = upkeep.check(tmp_path, repair=repair)

    assert [one.repaired for one in checked] == [False, False]
    assert all(one.faults for one in checked)
    assert note.read_text() == "Brot\nKäse\n"
    assert note.stat().st_mode & 0o777 == 0o644
    assert (folder / "20260102-030405-abcde0.jsonl").read_bytes() == b"\x00\xff\n" * 3
    assert len(list(folder.iterdir())) == 2


def test_a_fork_has_the_plan(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    plain_turn(session, "hi")
    write_plan(paths.plan_file(tmp_path, session.header.id), "- [ ] one")

    forked = upkeep.fork(tmp_path, session.header.id)
    session.close()

    assert read_plan(paths.plan_file(tmp_path, forked)).strip() == "- [ ] one"


def test_a_check_finds_a_lost_end_until_it_is_repaired(tmp_path: Path) -> None:
    session = whole_story(tmp_path)
    session_id = str(session.id)
    path = paths.session_file(tmp_path, session_id)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-3]))
    lost = str(sum(map(len, lines[-3:])))

    (first,), (second,) = upkeep.check(tmp_path), upkeep.check(tmp_path)
    (repaired,) = upkeep.check(tmp_path, repair=True)

    assert first == second
    assert lost in " ".join(first.faults)
    assert repaired.repaired
    assert upkeep.check(tmp_path) == [upkeep.Checked(id=session_id)]


def test_a_repair_keeps_a_doubled_line_once(tmp_path: Path) -> None:
    session = whole_story(tmp_path)
    path = paths.session_file(tmp_path, str(session.id))
    whole = path.read_bytes()
    path.write_bytes(whole * 2)

    upkeep.check(tmp_path, repair=True)

    assert path.read_bytes() == whole
    assert [aside.read_bytes() for aside in path.parent.glob("*.damaged-*")] == [whole * 2]


def test_a_check_covers_what_undo_needs(tmp_path: Path) -> None:
    session = whole_story(tmp_path)
    undo = undo_in(paths.undo_folder(paths.session_folder(tmp_path, str(session.id))))
    for turn, text in enumerate(("one", "two", "three")):
        change(undo, turn, tmp_path / "a.txt", text)
    journal = undo.journal.path
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], lines[1].replace(b"done", b"gone"), *lines[2:-1]]))
    content = next(undo.contents.folder.iterdir())
    content.write_bytes(b"?")

    (found,) = upkeep.check(tmp_path)
    (repaired,) = upkeep.check(tmp_path, repair=True)
    (after,) = upkeep.check(tmp_path)

    assert len(found.faults) == 2
    assert str(content) in found.faults[-1]
    assert repaired.repaired
    assert after.faults == ()
    assert undo.history().damaged == 1
    assert {path.read_bytes() for path in undo.folder.rglob("*.damaged-*")} > {b"?"}
