import errno
import io
import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode import durable
from kode.errors import StorageError


def test_replace_writes_exact_bytes_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "f"
    durable.replace(path, b"one")
    durable.replace(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["f"]


def test_replace_follows_a_link_so_that_it_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    durable.replace(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_fault_at_any_step_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "f"
    durable.replace(path, b"old")

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable.os, call, full)
    with pytest.raises(StorageError, match="disk is full"):
        durable.replace(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_failed_sync_is_never_retried_on_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync

    def once(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        if len(synced) == 1:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(durable.os, "fsync", once)
    durable.replace(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"
    assert len(synced) == 3  # the failed file, the new one, the folder


def test_a_torn_last_line_is_kept_aside_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntor")
    durable.append_line(path, b"two")
    assert path.read_bytes() == b"one\ntwo\n"
    assert (tmp_path / "lines.torn").read_bytes() == b"tor\n"


def test_an_append_that_fails_half_way_leaves_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    durable.append_line(path, b"one")
    real = os.write

    def half(descriptor: int, data: memoryview) -> int:
        real(descriptor, bytes(data)[:2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable.os, "write", half)
    with pytest.raises(StorageError):
        durable.append_line(path, b"two")
    monkeypatch.undo()
    assert path.read_bytes() == b"one\n"


def test_a_line_with_a_line_feed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line feed"):
        durable.append_line(tmp_path / "f", b"a\nb")


def test_folders_are_made_for_the_owner_alone(tmp_path: Path) -> None:
    durable.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def _count_up(folder: Path) -> None:
    for _ in range(25):
        with durable.locked(folder):
            number = int((folder / "n").read_bytes())
            durable.replace(folder / "n", str(number + 1).encode())


@pytest.mark.slow
def test_read_modify_write_inside_the_lock_loses_nothing(tmp_path: Path) -> None:
    durable.replace(tmp_path / "n", b"0")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_count_up, args=(tmp_path,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (tmp_path / "n").read_bytes() == b"100"


def test_a_damaged_file_is_set_aside_and_overwrites_nothing(tmp_path: Path) -> None:
    names = set()
    for number in range(3):
        (tmp_path / "f").write_text(str(number))
        names.add(durable.set_aside(tmp_path / "f").name)
    assert len(names) == 3
    assert not (tmp_path / "f").exists()


def test_a_temporary_file_of_a_dead_writer_goes_at_once(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / f"{durable.TEMPORARY_PREFIX}0").write_bytes(b"half")
    (tmp_path / "sub" / "kept").write_bytes(b"whole")
    durable.remove_all_stale_temporaries(tmp_path)
    assert os.listdir(tmp_path / "sub") == ["kept"]


def test_a_temporary_file_of_a_living_writer_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.rename

    def meanwhile(source: str, target: str, **options: int) -> None:
        durable.remove_all_stale_temporaries(tmp_path)
        real(source, target, **options)

    monkeypatch.setattr(durable.os, "rename", meanwhile)
    durable.replace(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"


def test_taking_a_lock_makes_durable_what_its_last_holder_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    durable.make_folder(tmp_path)
    monkeypatch.setattr(durable.os, "fsync", noted)
    with durable.locked(tmp_path):
        assert synced == [tmp_path.stat().st_ino]


@given(st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b"")), max_size=12))
def test_lines_come_backwards_whole_wherever_a_block_ends(lines: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "_BLOCK_BYTES", 4)
        found = list(durable.lines_backwards(io.BytesIO(b"\n".join(lines))))
    assert found == [line for line in reversed(lines) if line.strip()]
