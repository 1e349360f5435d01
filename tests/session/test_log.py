import errno
import json
import os
import random
from pathlib import Path

import pytest

from kode import durable, paths
from kode.errors import BusyError, SessionError, StorageError
from kode.messages import Message, Text, Usage, results_of, text_of, user_message
from kode.session import index, log, upkeep
from kode.session.entries import (
    AnyEntry,
    HookEntry,
    MessageEntry,
    PlanEntry,
    PluginEntry,
    SectionUpdateEntry,
    StateEntry,
    SystemEntry,
    TaintEntry,
    UsageEntry,
)
from kode.session.messages import UNKNOWN_RESULT
from tests.session.stories import (
    answer,
    asks,
    assert_sendable,
    new_session,
    plain_turn,
    results,
    turn_entry,
    whole_story,
)
from tests.tables import for_each


def session_of(home: Path) -> tuple[str, Path]:
    session = whole_story(home)
    assert session.id is not None
    assert session.path is not None
    return session.id, session.path


def test_appended_entries_are_there_after_loading(tmp_path: Path) -> None:
    written = whole_story(tmp_path)

    session, repairs = log.load(tmp_path, str(written.id))

    assert repairs == []
    assert session.entries == written.entries
    assert session.messages == written.messages
    assert session.header == written.header
    assert session.system == "You are kode."
    assert (session.turns, session.tainted) == (2, True)
    assert session.state("tiered") == {"buffer": ["10:00 user look"]}
    assert session.state("vault") == {}
    assert session.usage == written.usage
    assert session.cost_usd == 0.5
    session.close()


def test_an_appended_entry_is_on_disk_before_append_returns(tmp_path: Path) -> None:
    session = new_session(tmp_path)

    session.append_message(user_message("hello"))

    assert session.path is not None
    last = json.loads(session.path.read_bytes().splitlines()[-1])
    assert last["parts"][0]["text"] == "hello"
    session.close()


def test_only_its_owner_can_read_a_session(tmp_path: Path) -> None:
    session = new_session(tmp_path / "home")

    assert session.path is not None
    assert session.path.stat().st_mode & 0o777 == 0o600
    assert session.path.parent.stat().st_mode & 0o777 == 0o700
    session.close()


USED = {
    "nothing": ((), False),
    "its beginning": ((SystemEntry(text="s"),), False),
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
    "a plan": ((SystemEntry(text="s"), PlanEntry(text="1. Go.")), True),
    "what was paid": ((UsageEntry(purpose="memory", usage=Usage()),), True),
}


@pytest.mark.parametrize(("entries", "stays"), USED.values(), ids=USED)
def test_a_session_that_nobody_used_leaves_no_file(
    tmp_path: Path, entries: tuple[AnyEntry, ...], stays: bool
) -> None:
    session = new_session(tmp_path)
    for entry in entries:
        session.append(entry)

    session.close()
    session.close()

    assert session.path is not None
    assert session.path.exists() == stays


def test_a_session_that_was_trimmed_to_nothing_keeps_its_file(tmp_path: Path) -> None:
    from kode.session.entries import TrimEntry

    session = new_session(tmp_path)
    session.append_message(user_message("hello"))
    session.append(TrimEntry(kept_from=None))

    session.close()

    assert session.path is not None
    assert session.path.exists()


def test_a_session_kept_nowhere_works_the_same_without_a_file(tmp_path: Path) -> None:
    session = log.in_memory(cwd=tmp_path, model="m", provider="openai")

    plain_turn(session, "hello")
    session.close()

    assert session.id is None
    assert [text_of(m) for m in session.messages] == ["hello", "re: hello"]
    assert list(tmp_path.iterdir()) == []


def test_an_open_session_cannot_be_opened_twice(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    session.append_message(user_message("hello"))

    with pytest.raises(BusyError, match=f"kode session fork {session.id}"):
        log.load(tmp_path, str(session.id))

    session.close()
    again, _ = log.load(tmp_path, str(session.id))
    again.close()


def test_a_closed_session_takes_nothing_more(tmp_path: Path) -> None:
    from kode.errors import StorageError

    session = new_session(tmp_path)
    session.append_message(user_message("hello"))
    session.close()

    with pytest.raises(StorageError, match="closed"):
        session.append_message(user_message("more"))

    assert len(session.messages) == 1


def test_two_entries_never_have_the_same_id(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    first = TaintEntry(source="a", id="00000000")

    session.append(first, TaintEntry(source="b", id="00000000"))
    session.append(TaintEntry(source="c", id="00000000"))

    assert len({entry.id for entry in session.entries}) == 3
    session.close()


def test_calls_cut_off_by_a_crash_are_reported_once(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    session.append_message(user_message("go"))
    session.append_message(asks("a", "b"))
    session.close()

    loaded, repairs = log.load(tmp_path, str(session.id))
    loaded.close()
    again, second = log.load(tmp_path, str(session.id))
    again.close()

    assert [r.text for r in results_of(loaded.messages[-1])] == [UNKNOWN_RESULT] * 2
    assert isinstance(loaded.messages[-1], MessageEntry)
    assert "result is unknown" in repairs[0]
    assert second == []
    assert again.messages == loaded.messages


def test_a_crash_between_results_loses_only_the_missing_one(
    tmp_path: Path,
) -> None:
    session = new_session(tmp_path)
    session.append_message(user_message("go"))
    session.append_message(asks("a", "b"))
    session.append_message(results("b", text="done"))
    session.close()
    faults = upkeep.check(tmp_path, str(session.id))[0].faults

    loaded, repairs = log.load(tmp_path, str(session.id))
    loaded.close()
    again, second = log.load(tmp_path, str(session.id))
    again.close()

    assert "in the middle of a call" in faults[0]
    assert [r.text for r in results_of(loaded.messages[-1])] == [UNKNOWN_RESULT, "done"]
    assert len(repairs) == 1
    assert repairs[0].count("shell") == 1
    assert second == []
    assert again.messages == loaded.messages
    assert upkeep.check(tmp_path, str(session.id))[0].faults == ()


@pytest.mark.slow
def test_a_file_cut_at_any_byte_gives_a_sendable_prefix(tmp_path: Path) -> None:
    session_id, path = session_of(tmp_path)
    data, whole = path.read_bytes(), log.read(path)[1]
    torn = path.with_name(path.name + ".torn")

    for length in range(len(data)):
        path.write_bytes(data[:length])
        durable.note_length(path, len(data))
        loaded, repairs = log.load(tmp_path, session_id)
        loaded.close()
        kept = max(0, data[:length].count(b"\n") - 1)
        added = len(loaded.entries) - kept

        assert loaded.entries[:kept] == whole[:kept]
        assert added in (0, 1)
        assert_sendable(loaded.messages)
        last_line = data[:length].rpartition(b"\n")[2]
        assert repairs
        assert (torn.read_bytes() if torn.exists() else b"") == (last_line and last_line + b"\n")
        torn.unlink(missing_ok=True)
        if length % 5 and not added:
            continue
        again, second = log.load(tmp_path, session_id)
        again.close()
        assert second == []
        assert again.messages == loaded.messages


@for_each("seed", range(40))
def test_loading_a_file_with_flipped_bits_never_fails(tmp_path: Path, seed: int) -> None:
    session_id, path = session_of(tmp_path)
    chance = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 12)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path.write_bytes(data)

    try:
        loaded, _ = log.load(tmp_path, session_id)
    except SessionError:  # the version itself was hit
        assert b'"version":1' not in data
        return
    loaded.append_message(user_message("go on"))
    loaded.close()

    assert_sendable(loaded.messages)


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
    session_id, path = session_of(tmp_path)
    path.write_bytes(data)

    loaded, repairs = log.load(tmp_path, session_id)
    loaded.append_message(user_message("go on"))
    loaded.close()
    again, _ = log.load(tmp_path, session_id)
    again.close()

    assert repairs
    assert loaded.header.id == session_id
    assert [text_of(m) for m in again.messages] == ["go on"]


def test_garbage_in_the_middle_is_skipped_and_reported(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    plain_turn(session, "one")
    session.close()
    assert session.path is not None
    with session.path.open("ab") as file:
        file.write(b"\x00\xff garbage\n")
    loaded, repairs = log.load(tmp_path, str(session.id))
    plain_turn(loaded, "two")
    loaded.close()

    assert "Skipped 1 damaged line of" in repairs[0]
    assert "(line 5)" in repairs[0]
    assert b"\x00\xff garbage\n" in session.path.read_bytes()
    assert [text_of(m) for m in loaded.messages] == ["one", "re: one", "two", "re: two"]


def test_a_lost_tool_message_is_told_as_unknown(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    session.append_message(user_message("go"))
    session.append_message(asks("a"))
    session.append_message(results("a"))
    session.append_message(answer("done"))
    session.close()
    assert session.path is not None
    lines = session.path.read_bytes().split(b"\n")
    lines[3] = lines[3][:-20]
    session.path.write_bytes(b"\n".join(lines))

    loaded, _ = log.load(tmp_path, str(session.id))
    loaded.close()

    assert_sendable(loaded.messages)
    assert [r.text for r in results_of(loaded.messages[2])] == [UNKNOWN_RESULT]


def test_a_session_of_a_newer_format_is_not_touched(tmp_path: Path) -> None:
    session_id, path = session_of(tmp_path)
    data = path.read_bytes().replace(b'"version":1', b'"version":2', 1)
    path.write_bytes(data)

    with pytest.raises(SessionError, match=r"newer kode \(format 2\). Update kode"):
        log.load(tmp_path, session_id)

    assert path.read_bytes() == data


def test_entries_of_a_newer_kode_are_kept_and_named_once(
    tmp_path: Path,
) -> None:
    session_id, path = session_of(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"type":"hologram","id":"1","at":"x"}\n' * 2)

    loaded, repairs = log.load(tmp_path, session_id)
    loaded.close()

    assert len([r for r in repairs if "hologram" in r]) == 1
    assert path.read_bytes().count(b"hologram") == 2


def test_a_copied_file_goes_by_its_own_name(tmp_path: Path) -> None:
    _, path = session_of(tmp_path)
    copy = path.with_name("20200101-000000-abcdef.jsonl")
    copy.write_bytes(path.read_bytes())

    loaded, repairs = log.load(tmp_path, copy.stem)
    loaded.close()

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
    session = new_session(tmp_path)
    session.append_message(user_message("one"))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="free some space"):
            session.append_message(user_message("two"))
    session.append_message(user_message("three"))
    session.close()

    loaded, repairs = log.load(tmp_path, str(session.id))
    loaded.close()
    assert repairs == []
    assert [text_of(m) for m in loaded.messages] == ["one", "three"]
    assert loaded.messages == session.messages


def test_costs_are_those_of_turns_and_of_requests_beside_them(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    plain_turn(session, "one")
    usage = session.usage

    session.append(UsageEntry(purpose="memory", usage=usage, cost_usd=0.25, model="m"))
    session.append(StateEntry(system="tiered", state={"n": 1}))
    session.append(turn_entry(1, session))

    assert session.cost_usd == 0.75
    assert session.usage == usage + usage
    session.close()


def test_the_cost_of_a_killed_turn_counts_too(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    plain_turn(session, "one")
    session.append_message(user_message("two"))
    session.append_message(asks("c1"), cost_usd=0.25)
    session.close()

    resumed, _ = log.load(tmp_path, str(session.id))
    resumed.close()

    assert resumed.cost_usd == 0.75


def test_a_closed_session_is_free_despite_a_childs_handle(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    session.append_message(user_message("hello"))
    assert session.file is not None
    kept = os.dup(session.file.fileno())  # as a child process has it until it runs its program
    try:
        session.close()
        again, _ = log.load(tmp_path, str(session.id))
        again.close()
    finally:
        os.close(kept)


def test_a_session_that_fails_to_be_created_leaves_nothing_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable, "append_to", full)

    with pytest.raises(StorageError, match="The disk is full"):
        log.create(tmp_path, cwd=tmp_path, model="m", provider="p")

    assert list((tmp_path / "sessions").iterdir()) == []


def test_a_session_deleted_while_it_is_opened_stays_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, path = session_of(tmp_path)
    monkeypatch.setattr(log, "_lock", lambda file, session_id: path.unlink())

    with pytest.raises(SessionError):
        log.load(tmp_path, session_id)

    assert not path.exists()


def test_a_session_names_the_first_outside_source(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    session.append(TaintEntry(source="a page"), TaintEntry(source="another"))
    assert session.tainted_by == "a page"
    session.close()


def test_a_new_session_has_its_task_from_the_first_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[bytes] = []
    monkeypatch.setattr(durable, "append_to", lambda file, data, path, **_: writes.append(data))
    log.create(tmp_path, cwd=tmp_path, model="m", provider="p", task="fix it").close()
    assert [b"fix it" in data for data in writes] == [True]


PROMPTS: list[tuple[str, list[str], str, tuple[str, int]]] = [
    ("record a", [], "a", ("a", 1)),
    ("record a, record a", [], "a", ("a", 1)),
    ("record a, begin a, answer", ["note", "a", "Done."], "", ("a", 1)),
    ("record a, drop", [], "", ("", 0)),
    ("record a, drop, record b, begin b, answer", ["note", "b", "Done."], "", ("b", 1)),
    ("record a, record a+b, begin a+b", ["note", "a+b"], "", ("a", 1)),
    ("record a, begin expanded, answer", ["note", "expanded", "Done."], "", ("a", 1)),
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
            session.begin_prompt(text, None, (Text(text="note", source="note"),), ())
        elif verb == "drop":
            session.drop_prompt()
        else:
            session.append_message(Message(role="assistant", parts=(Text(text="Done."),)))
    assert session.id is not None
    session.loaded = True  # closing keeps its file
    session.close()

    again, faults = log.load(tmp_path, session.id)
    summary = index.list_sessions(tmp_path)[0]
    again.close()

    assert [
        part.text for one in again.messages for part in one.parts if isinstance(part, Text)
    ] == texts
    assert (again.messages, text_of(again.pending) if again.pending else "", faults) == (
        session.messages,
        pending,
        [],
    )
    assert (summary.task, summary.turns) == listed
