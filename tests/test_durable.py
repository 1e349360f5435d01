"""What a call has written survives a power cut, of what fails half way nothing stays, and a line or
object that a disk or a copy has changed is found; one edited by hand is read."""

import contextlib
import errno
import fcntl
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kode import beneath, durable
from kode.durable import is_intact, seal, seal_object, unseal_object
from kode.errors import BusyError, StorageError
from kode.memory import log as memory_log, statement
from kode.messages import Text
from kode.session import entries

Change = Callable[[Path], object]


def watch(monkeypatch: pytest.MonkeyPatch, name: str, before: Callable[..., object]) -> None:
    """Has `before` called with what each call of `os.NAME` in the module has."""
    real = getattr(os, name)

    def watched(*given: Any, **more: Any) -> Any:
        before(*given)
        return real(*given, **more)

    monkeypatch.setattr(durable.os, name, watched)


def names_synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inodes of what is synced from now on, in order; no folder counts as synced before."""
    synced: list[int] = []
    monkeypatch.setattr(durable, "_synced", set())
    watch(monkeypatch, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    return synced


def is_free(path: Path) -> bool:
    with path.open("rb") as file, contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_replace_writes_exact_bytes_and_keeps_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "f", tmp_path / "link"
    link.symlink_to(path)
    before = os.umask(0o077)
    try:
        durable.replace_file(path, b"one")
        assert mode_of(path) == 0o600
        durable.replace_file(link, b"two", mode=0o755)
    finally:
        os.umask(before)
    assert (path.read_bytes(), mode_of(path)) == (b"two", 0o755)
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["f", "link"]


def lock(folder: Path) -> None:
    with durable.hold_lock(folder, follow=False):
        pass


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: durable.replace_file(folder / "f", b"new", follow=False),
        lambda folder: durable.make_folder(folder / "a", follow=False),
        lambda folder: lock(folder / "a"),
        lock,
    ],
)
def test_a_link_in_the_way_is_not_written_through(tmp_path: Path, write: Change) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(StorageError):
        write(tmp_path / "link")
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_fault_at_any_step_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "f"
    durable.replace_file(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(durable.os, call, fail)
        with pytest.raises(StorageError, match="disk is full"):
            durable.replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_failed_sync_is_never_retried_on_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def fail_once(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 1:
            raise OSError(errno.EIO, "Input/output error")

    watch(monkeypatch, "fsync", fail_once)
    durable.replace_file(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"
    assert len(synced) == 3  # the failed file, the new one, the folder


def test_a_file_is_synced_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = names_synced(monkeypatch)
    renamed: list[bool] = []

    def rename(source: str, target: str) -> None:
        renamed.append(os.stat(tmp_path / source).st_ino in synced)
        durable.remove_stale_temporaries(tmp_path)  # that of a living writer stays

    watch(monkeypatch, "rename", rename)
    durable.replace_file(tmp_path / "f", b"new")
    assert renamed == [True]
    assert (tmp_path / "f").read_bytes() == b"new"


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: durable.append_lines(folder / "new", [b"line"]),
        lambda folder: durable.replace_file(folder / "old", b"new"),
        lambda folder: durable.remove(folder / "old"),
        lambda folder: durable.set_aside(folder / "old"),
        lambda folder: durable.make_folder(folder / "a"),
        lambda folder: durable.make_folder(folder / "by a process that was killed"),
    ],
)
def test_a_changed_name_is_synced_before_the_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "by a process that was killed").mkdir()
    synced = names_synced(monkeypatch)

    change(tmp_path)

    assert tmp_path.stat().st_ino in synced


# ── files of lines ───────────────────────────────────────────────────────────────────────────


@given(st.binary(max_size=20), st.binary(max_size=9).map(lambda torn: torn.replace(b"\n", b"")))
def test_a_torn_line_is_kept_aside_wherever_a_block_ends(whole: bytes, torn: bytes) -> None:
    lines = whole + b"\n" if whole else b""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(durable, "_BLOCK_BYTES", 4)
        path = Path(folder, "lines")
        path.write_bytes(lines + torn)
        durable.append_lines(path, [b"new"])
        aside = Path(folder, "lines.torn")
        kept = aside.read_bytes() if aside.exists() else b""
        assert path.read_bytes() == lines + b"new\n"
        assert kept == (torn + b"\n" if torn else b"")


@given(st.binary(max_size=60))
def test_lines_come_backwards_whole_wherever_a_block_ends(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "_BLOCK_BYTES", 4)
        pieces = list(durable.read_backwards(io.BytesIO(data)))
    assert pieces == data.split(b"\n")[::-1]


@pytest.mark.parametrize("before", [b"one\n", b"one\ntor"])
def test_an_append_that_fails_half_way_leaves_what_there_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(before)
    real = os.write

    def half(descriptor: int, data: memoryview) -> int:
        real(descriptor, bytes(data)[:2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable.os, "write", half)
    with pytest.raises(StorageError):
        durable.append_lines(path, [b"two"])
    assert path.read_bytes() == before


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    for number in range(3):
        durable.append_lines(path, [b'{"number":%d}' % number])
    return path


def test_a_log_knows_what_it_has_lost(log: Path) -> None:
    whole = log.read_bytes()
    lines = whole.splitlines(keepends=True)
    for content, lost in (
        (whole, 0),
        (b"".join(lines[:2]), len(lines[2])),
        (whole + b"unnoted\n", 0),
        (b"", len(whole)),
    ):
        log.write_bytes(content)
        assert durable.count_lost_bytes(log) == lost
    log.unlink()
    assert durable.count_lost_bytes(log) == durable.read_length(log) == len(whole)
    durable.remove_length(log)
    assert durable.count_lost_bytes(log) == durable.read_length(log) == 0


def flips(data: bytes) -> Iterator[bytes]:
    """The data with each of its bits flipped, one at a time."""
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


def test_no_flipped_bit_of_a_note_tells_another_length(log: Path) -> None:
    (note,) = log.parent.glob("*.end")
    length = durable.read_length(log)
    for flipped in flips(note.read_bytes()):
        note.write_bytes(flipped)
        assert durable.read_length(log) in (0, length)


@pytest.mark.parametrize("put", [lambda note: note.symlink_to("victim"), os.mkfifo, os.mkdir])
def test_an_entry_in_place_of_a_note_stops_no_append(
    tmp_path: Path, put: Callable[[Path], Any]
) -> None:
    log, victim = tmp_path / "log.jsonl", tmp_path / "victim"
    victim.write_text("whole")
    put(tmp_path / "log.jsonl.end")

    durable.append_lines(log, [b"{}"])

    assert (log.read_bytes(), durable.count_lost_bytes(log)) == (b"{}\n", 0)
    assert victim.read_text() == "whole"


# ── locks ────────────────────────────────────────────────────────────────────────────────────


def test_a_lock_that_is_given_back_in_time_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = os.open(tmp_path / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(holder, fcntl.LOCK_EX)
    monkeypatch.setattr(durable.time, "sleep", lambda pause_s: durable.unlock(holder))
    with durable.hold_lock(tmp_path, timeout_s=60):
        assert not is_free(tmp_path / ".lock")
        with pytest.raises(BusyError), durable.hold_lock(tmp_path, timeout_s=0):
            pass
    assert is_free(tmp_path / ".lock")
    os.close(holder)


def test_a_lock_is_free_though_a_child_holds_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[int] = []
    real = fcntl.flock

    def take(descriptor: int, operation: int) -> None:
        copies.append(os.dup(descriptor))
        real(descriptor, operation)

    with monkeypatch.context() as patch:
        patch.setattr(durable.fcntl, "flock", take)
        lock(tmp_path)
    assert is_free(tmp_path / ".lock")
    os.close(copies[0])


# ── what is damaged or left ──────────────────────────────────────────────────────────────────


def test_a_damaged_file_is_set_aside_and_overwrites_nothing(tmp_path: Path) -> None:
    names = set()
    for number in range(3):
        (tmp_path / "f").write_text(str(number))
        names.add(durable.set_aside(tmp_path / "f").name)
    assert len(names) == 3
    assert not (tmp_path / "f").exists()


def test_a_temporary_file_of_a_dead_writer_goes_at_once(tmp_path: Path) -> None:
    below = tmp_path / "sub"
    below.mkdir()
    (below / f"{beneath.TEMPORARY_PREFIX}0").write_bytes(b"half")
    (below / f"{beneath.TEMPORARY_PREFIX}1").symlink_to(tmp_path)
    (below / "kept").write_bytes(b"whole")
    durable.remove_stale_temporaries(tmp_path)
    assert len(os.listdir(below)) == 3
    durable.remove_stale_temporaries(tmp_path, also_below=True)
    assert os.listdir(below) == ["kept"]


# ── checksums ────────────────────────────────────────────────────────────────────────────────


def line_of(text: str) -> bytes:
    return entries.encode_line(entries.MessageEntry(role="user", parts=(Text(text=text),)))


def read(parse: Callable[[bytes], Any], line: bytes) -> Any:
    try:
        return parse(line)
    except ValueError:
        return None


CHANGE = statement.MemoryChange(who="user", kind="forget", system="tiered", reason="port 8080")
LINES = {
    "session": (line_of("keep the port at 8080"), entries.parse_line),
    "memory": (memory_log._encode_change(CHANGE), memory_log._decode_change),
}


@pytest.mark.parametrize("name", LINES)
def test_no_flipped_bit_of_a_line_changes_its_content(name: str) -> None:
    line, parse = LINES[name]
    whole = parse(line)
    assert all(read(parse, flipped) in (None, whole) for flipped in flips(line))


def test_a_line_edited_by_hand_needs_no_checksum() -> None:
    line, parse = LINES["session"]
    edited = line.replace(b"8080", b"9090")
    bare, edited_bare = (text[: text.rindex(b',"sum"')] + b"}" for text in (line, edited))

    assert read(parse, edited) is None
    assert is_intact(edited_bare)
    assert parse(edited_bare).parts[0].text == "keep the port at 9090"
    assert seal(bare) == line


def test_a_text_that_looks_like_a_checksum_is_none() -> None:
    text = 'look: ,"sum":"00000000"}'
    assert entries.parse_line(line_of(text)).parts[0].text == text


def test_no_flipped_bit_of_an_object_changes_its_content() -> None:
    value = {"version": 1, "allow": ["shell(make:*)"], "more": {"größe": 1.5}}
    data = json.dumps(seal_object(value), indent=2).encode()
    assert unseal_object(json.loads(data)) == unseal_object(value) == value
    for flipped in flips(data):
        with contextlib.suppress(ValueError, AttributeError):
            read = unseal_object(json.loads(flipped))
            # A member that is no longer called `sum` is one that no reader asks for.
            assert {key: read[key] for key in value} == value
