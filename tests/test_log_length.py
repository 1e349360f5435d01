"""A log that was cut between two lines is found, and no sound one is taken for cut."""

import os
from pathlib import Path

import pytest

from kode import durable


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    for number in range(3):
        durable.append_lines(path, [b'{"number":%d}' % number])
    return path


def test_a_log_that_lost_its_last_line_is_found(log: Path) -> None:
    whole = log.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert durable.lost_bytes(log) == 0

    log.write_bytes(b"".join(lines[:2]))
    assert durable.lost_bytes(log) == len(lines[2])

    log.unlink()
    assert durable.lost_bytes(log) == len(whole)


def test_a_log_longer_than_its_note_lost_nothing(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"unnoted\n")

    assert durable.lost_bytes(log) == 0
    assert durable.noted_length(log) > 0


def test_a_log_without_a_note_lost_nothing(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_bytes(b"{}\n")

    assert durable.lost_bytes(tmp_path / "old.jsonl") == 0


def test_no_flipped_bit_of_a_note_tells_another_length(log: Path) -> None:
    (note,) = log.parent.glob("*.end")
    whole, length = note.read_bytes(), durable.noted_length(log)
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        note.write_bytes(flipped)
        assert durable.noted_length(log) in (0, length)


def test_a_note_leads_nowhere_else_and_stops_nothing(tmp_path: Path) -> None:
    log, victim = tmp_path / "log.jsonl", tmp_path / "victim"
    victim.write_text("whole")
    beside = tmp_path / "log.jsonl.end"
    beside.symlink_to(victim)
    durable.append_lines(log, [b"{}"])
    beside.unlink()
    os.mkfifo(beside)
    durable.append_lines(log, [b"{}"])

    assert durable.lost_bytes(log) == 0
    assert victim.read_text() == "whole"


def test_a_place_without_room_for_a_note_stops_no_append(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    (tmp_path / "log.jsonl.end").mkdir()

    durable.append_lines(log, [b"{}"])

    assert log.read_bytes() == b"{}\n"
