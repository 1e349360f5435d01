import errno
import fcntl
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from kode import durable, paths
from kode.errors import BusyError, SessionError, StorageError
from kode.messages import Message, Text, Usage, results_of, text_of, user_message
from kode.session import index, log, upkeep
from kode.session.entries import (
    Entry,
    Header,
    HookEntry,
    PlanEntry,
    PluginEntry,
    RequestEntry,
    SectionUpdateEntry,
    StateEntry,
    SystemEntry,
    TaintEntry,
    TrimEntry,
    UsageEntry,
)
from kode.session.messages import UNKNOWN_RESULT
from tests.session.stories import (
    assert_sendable,
    message_of,
    new_session,
    plain_turn,
    reopened,
    story,
    whole_story,
)


def test_appended_entries_are_there_after_loading(tmp_path: Path) -> None:
    written = whole_story(tmp_path)

    session, repairs = reopened(tmp_path, written.id)

    assert repairs == []
    assert session.entries == written.entries
    assert session.messages == written.messages
    assert session.header == written.header
    assert session.system == "You are kode."
    assert (session.turns, bool(session.tainted_by)) == (2, True)
    assert session.states["tiered"] == {"buffer": ["10:00 user look"]}
    assert session.spent == written.spent
    assert session.spent.cost_usd == 0.5
    assert session.path.stat().st_mode & 0o777 == 0o600


USED = {
    "nothing": ((), False),
    "its beginning": ((SystemEntry(sections={"kode": "s"}),), False),
    "what opening it leaves": (
        (
            TaintEntry(source="the kode that started this one"),
            HookEntry(event="SessionStart", name="h", exit_code=0, outcome="", duration_ms=1),
            StateEntry(system="tiered", state={"a": 1}),
            SectionUpdateEntry(section="memory", text="m"),
        ),
        False,
    ),
    "a plug-in's record": ((PluginEntry(type="x-tally", value={}),), True),
    "a plan": ((SystemEntry(sections={"kode": "s"}), PlanEntry(text="1. Go.")), True),
    "what was paid": ((UsageEntry(purpose="memory", usage=Usage()),), True),
    "a trim to nothing": ((TrimEntry(kept_from=None),), True),
}


@pytest.mark.parametrize(("entries", "stays"), USED.values(), ids=USED)
def test_a_session_that_nobody_used_leaves_no_file(
    tmp_path: Path, entries: tuple[Entry, ...], stays: bool
) -> None:
    session = story(tmp_path, *entries)
    session.close()

    assert session.path.exists() == stays


def test_a_session_is_open_once_until_its_end(tmp_path: Path) -> None:
    session = story(tmp_path, "user hello", is_open=True)
    with pytest.raises(BusyError, match=f"kode session fork {session.id}"):
        log.load(tmp_path, str(session.id))
    child = os.dup(session.file.fileno())  # as a child process has it until it runs its program

    session.close()

    reopened(tmp_path, session.id)
    os.close(child)
    with pytest.raises(StorageError, match="closed"):
        session.append_message(user_message("more"))
    assert len(session.messages) == 1


@pytest.mark.parametrize(
    ("steps", "texts"),
    [
        (("user go", "asks a b"), [UNKNOWN_RESULT] * 2),
        (("user go", "asks a b", "results b"), [UNKNOWN_RESULT, "done"]),
    ],
)
def test_calls_cut_off_by_a_crash_are_reported_once(
    tmp_path: Path, steps: tuple[str, ...], texts: list[str]
) -> None:
    session = story(tmp_path, *steps)
    faults = upkeep.check(tmp_path, session.id)[0].faults

    loaded, repairs = reopened(tmp_path, session.id)
    again, second = reopened(tmp_path, session.id)

    assert "of a call" in faults[0]
    assert [r.text for r in results_of(loaded.messages[-1])] == texts
    assert len(repairs) == 1
    assert repairs[0].count("shell") == texts.count(UNKNOWN_RESULT)
    assert second == []
    assert again.messages == loaded.messages
    assert upkeep.check(tmp_path, session.id)[0].faults == ()


@pytest.mark.slow
def test_a_file_cut_at_any_byte_gives_a_sendable_prefix(tmp_path: Path) -> None:
    path = whole_story(tmp_path).path
    data, whole = path.read_bytes(), log.read(path)[1]
    torn = path.with_name(path.name + ".torn")

    for length in range(len(data)):
        path.write_bytes(data[:length])
        durable.write_length(path, len(data))
        loaded, repairs = reopened(tmp_path, path.stem)
        count = max(0, data[:length].count(b"\n") - 1)
        added = len(loaded.entries) - count

        assert loaded.entries[:count] == whole[:count]
        assert added in (0, 1)
        assert_sendable(loaded.messages)
        last_line = data[:length].rpartition(b"\n")[2]
        assert f"is lost: {len(data) - length} bytes" in repairs[-1 - bool(added)]
        assert (torn.read_bytes() if torn.exists() else b"") == (last_line and last_line + b"\n")
        torn.unlink(missing_ok=True)
        if length % 5 and not added:
            continue
        again, second = reopened(tmp_path, path.stem)
        assert second == []
        assert again.messages == loaded.messages


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\0" * 4096,
        b"\xff\xfe\x00 not text at all \x80\n",
        b"[" * 100_000 + b"\n",
        b'{"type":"message"}\n',
        b'"text"\n17\nnull\n[]\n',
        b'\xef\xbb\xbf{"type":"session"}\n',
    ],
)
def test_a_file_of_garbage_loads_as_an_empty_session(tmp_path: Path, data: bytes) -> None:
    path = whole_story(tmp_path).path
    path.write_bytes(data)

    loaded, repairs = log.load(tmp_path, path.stem)
    loaded.append_message(user_message("go on"))
    loaded.close()

    assert repairs
    assert loaded.header.id == path.stem
    assert [text_of(m) for m in reopened(tmp_path, path.stem)[0].messages] == ["go on"]


def test_a_session_of_a_newer_format_is_not_touched(tmp_path: Path) -> None:
    path = whole_story(tmp_path).path
    data = path.read_bytes().replace(b'"version":1', b'"version":2', 1)
    path.write_bytes(data)

    with pytest.raises(SessionError, match=r"format 2\). Update kode"):
        log.load(tmp_path, path.stem)

    assert path.read_bytes() == data


def test_lines_that_cannot_be_read_stay_and_are_named_once(tmp_path: Path) -> None:
    path = story(tmp_path, "user one", "answer re: one").path
    unread = b"\x00\xff garbage\n" + b'{"type":"hologram","id":"1","at":"x"}\n' * 2
    with path.open("ab") as file:
        file.write(unread)
    loaded, repairs = log.load(tmp_path, path.stem)
    plain_turn(loaded, "two")
    loaded.close()

    assert "Skipped 1 damaged line of" in repairs[0]
    assert "(line 4)" in repairs[0]
    assert ["hologram" in repair for repair in repairs] == [False, True]
    assert unread in path.read_bytes()
    assert [text_of(m) for m in loaded.messages] == ["one", "re: one", "two", "re: two"]


def test_a_copied_file_goes_by_its_own_name(tmp_path: Path) -> None:
    path = whole_story(tmp_path).path
    copy = path.with_name("20200101-000000-abcdef.jsonl")
    copy.write_bytes(path.read_bytes())

    loaded, repairs = reopened(tmp_path, copy.stem)

    assert loaded.id == copy.stem
    assert "calls itself" in repairs[0]


@pytest.mark.parametrize(
    "session_id", ["", "../x", "a/b", "20200101-000000-abcdef", "\0", "user", "x" * 500]
)
def test_an_id_that_is_no_session_is_refused(tmp_path: Path, session_id: str) -> None:
    (tmp_path / "x.jsonl").write_text("{}\n")

    with pytest.raises(SessionError, match="kode session list"):
        log.load(tmp_path, session_id)

    assert not paths.sessions_folder(tmp_path).exists()


def test_a_full_disk_is_reported_and_nothing_is_half_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = story(tmp_path, "user one", is_open=True)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="free some space"):
            session.append_message(user_message("two"))
    session.append_message(user_message("three"))
    session.close()

    loaded, repairs = reopened(tmp_path, session.id)
    assert repairs == []
    assert [text_of(m) for m in loaded.messages] == ["one", "three"]
    assert loaded.messages == session.messages

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="disk is full"):
        log.create(tmp_path / "new", Header(cwd=str(tmp_path), model="m", provider="p"))
    assert list((tmp_path / "new").rglob("*.jsonl")) == []


def test_a_request_is_on_disk_once_with_its_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = story(tmp_path, "user one", RequestEntry(provider="p"), is_open=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "full")))
        with pytest.raises(StorageError):
            session.append_message(message_of("answer 1"))
    session.append_message(message_of("answer 1"))
    session.close()

    assert reopened(tmp_path, session.id)[0].entries == session.entries
    assert [entry.type for entry in session.entries] == ["message", "request", "message"]


def test_costs_are_those_of_requests_of_turns_and_beside_them(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    plain_turn(session, "one")
    usage = session.spent.usage

    session.append(UsageEntry(purpose="memory", usage=usage, cost_usd=0.25, model="m"))
    assert not session.spent.unpriced
    session.append_message(Message(role="assistant", parts=(Text(text="half"),), usage=Usage()))
    session.close()

    for each in (session, reopened(tmp_path, session.id)[0]):
        assert (each.spent.cost_usd, each.spent.usage) == (0.75, usage + usage)
        assert each.spent.unpriced == 1


def test_a_session_deleted_while_it_is_opened_stays_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = whole_story(tmp_path).path
    monkeypatch.setattr(fcntl, "flock", lambda *_: path.unlink(missing_ok=True))

    with pytest.raises(SessionError):
        log.load(tmp_path, path.stem)

    assert not path.exists()


def test_a_new_session_has_its_task_from_the_first_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[bytes] = []
    replace = durable.replace_file
    monkeypatch.setattr(
        durable, "replace_file", lambda path, data: writes.append(data) or replace(path, data)
    )
    log.create(tmp_path, Header(cwd=str(tmp_path), model="m", provider="p"), "fix it").close()
    assert [b"fix it" in data for data in writes] == [True]


PROMPTS: list[tuple[str, list[str], str, tuple[str, int]]] = [
    ("record a", [], "a", ("a", 1)),
    ("record a, record a", [], "a", ("a", 1)),
    ("record a, begin a, answer", ["note", "a", "Done."], "", ("a", 1)),
    ("record a, drop", [], "", ("", 0)),
    ("record a, drop, record b, begin b, answer", ["note", "b", "Done."], "", ("b", 1)),
    ("record a, record a+b, begin a+b", ["note", "a+b"], "", ("a+b", 1)),
    ("record a, begin expanded, answer", ["note", "expanded", "Done."], "", ("typed", 1)),
    ("begin a, answer, record b", ["note", "a", "Done."], "b", ("a", 2)),
    ("record a, answer", ["a", "Done."], "", ("a", 1)),
]


@pytest.mark.parametrize(("steps", "texts", "pending", "listed"), PROMPTS, ids=lambda value: "")
def test_a_prompt_counts_with_its_context_and_is_kept_without(
    tmp_path: Path, steps: str, texts: list[str], pending: str, listed: tuple[str, int]
) -> None:
    session = new_session(tmp_path)
    for step in steps.split(", "):
        verb, _, text = step.partition(" ")
        if verb == "record":
            session.record_prompt(text)
        elif verb == "begin":
            typed = "typed" if text == "expanded" else None
            session.begin_prompt(text, typed, (Text(text="note", source="note"),), ())
        elif verb == "drop":
            session.drop_prompt()
        else:
            session.append_message(Message(role="assistant", parts=(Text(text="Done."),)))
    session.loaded = True  # closing keeps its file
    session.close()

    again, faults = reopened(tmp_path, session.id)
    summary = index.list_sessions(tmp_path)[0]

    assert (again.messages, faults) == (session.messages, [])
    assert [p.text for m in again.messages for p in m.parts if isinstance(p, Text)] == texts
    assert (text_of(again.pending) if again.pending else "") == pending
    assert (summary.task, summary.turns) == listed
