from datetime import UTC, datetime, timedelta, timezone

import pytest

from kode.errors import MemoryRefused
from kode.memory.journal.files import block_of, parse
from tests.memory.journal.life import add_entry, files_in

LAST = datetime(2026, 2, 28, 23, 59, 59, 999_000, tzinfo=UTC)


def test_the_memory_is_read_trimmed(tmp_path):
    files = files_in(tmp_path / "journal")

    assert files.read_memory() == ""
    files.root.mkdir()
    (files.root / "MEMORY.md").write_text("  - likes tabs\n\n")

    assert files.read_memory() == "- likes tabs"


def test_a_memory_that_is_not_utf_8_is_refused(tmp_path):
    (tmp_path / "MEMORY.md").write_bytes(b"\xff\xfe")

    with pytest.raises(MemoryRefused, match="not UTF-8"):
        files_in(tmp_path).read_memory()


def test_each_entry_goes_to_the_history_and_to_its_month(tmp_path):
    files = files_in(tmp_path)

    first = add_entry(files, "one", LAST)
    second = add_entry(files, "two", LAST + timedelta(milliseconds=1))

    assert first == "## 2026-02-28T23:59:59.999Z\n\none\n\n"
    assert (tmp_path / "HISTORY-2026-02.md").read_text() == first
    assert (tmp_path / "HISTORY-2026-03.md").read_text() == second
    assert (tmp_path / "HISTORY.md").read_text() == first + second


def test_months_are_those_of_utc(tmp_path):
    tokyo = timezone(timedelta(hours=9))

    add_entry(files_in(tmp_path), "x", datetime(2026, 3, 1, 8, tzinfo=tokyo))

    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["HISTORY-2026-02.md", "HISTORY.md"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\u2028"])
def test_a_line_like_a_header_leaves_one_entry(tmp_path, end):
    text = f"before{end}## 2026-01-01T00:00:00.000Z{end}after"

    (entry,) = parse(block_of(text, LAST))

    assert entry.at == "2026-02-28T23:59:59.999Z"
    assert entry.text == "before\n ## 2026-01-01T00:00:00.000Z\nafter"


def test_an_entry_that_two_files_have_is_listed_once(tmp_path):
    files = files_in(tmp_path)
    add_entry(files, "one", LAST)
    (tmp_path / "HISTORY-2020-01.md").write_text("# mine\n\n## 2020-01-01T00:00:00Z\n\nold\n")

    assert [entry.text for entry in files.entries()] == ["old", "one"]


@pytest.mark.parametrize("written", range(0, 40, 3))
def test_half_an_entry_left_by_a_crash_is_completed_once(tmp_path, written):
    files = files_in(tmp_path)
    add_entry(files, "one", LAST)
    block = block_of("two", LAST + timedelta(days=1))
    with (tmp_path / "HISTORY.md").open("a") as file:
        file.write(block[:written])

    files.append_block(block, LAST + timedelta(days=1))
    files.append_block(block, LAST + timedelta(days=1))

    assert (tmp_path / "HISTORY.md").read_text() == block_of("one", LAST) + block
    assert (tmp_path / "HISTORY-2026-03.md").read_text() == block


@pytest.mark.parametrize(
    "mine", [b"#\xed\xa0\x80#", b"what I wrote ##", b"my C#", b"x\n## 2026-03-01"]
)
def test_a_persons_last_words_survive_the_recovery_of_an_entry(tmp_path, mine):
    files = files_in(tmp_path)
    at = LAST + timedelta(days=30)
    (tmp_path / "HISTORY.md").write_bytes(mine)

    files.append_block(block_of("two", at), at)

    kept = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert all(line in kept for line in mine.splitlines())
