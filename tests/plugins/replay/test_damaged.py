"""Files that are no cassettes, or damaged ones."""

import json
import random
from pathlib import Path

import pytest

from kode import paths
from kode.errors import KodeError, SessionError
from kode.plugins.replay.cassette import read_cassette
from kode.session.content_store import Contents
from kode.session.requests import kept_tools
from tests.tables import for_each

ABOUT = {"type": "cassette", "version": 2, "project": "/p", "home": "/h"}
HEADER = {"type": "session", "version": 1, "id": "20260101-000000-aaaaaa", "cwd": "/p"}


def cassette(**about: object) -> bytes:
    return "\n".join(map(json.dumps, (ABOUT | about, HEADER, "no entry"))).encode() + b"\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1",
        b"[" * 100_000,
        b"{}",
        b"PK\x05\x06" + b"\0" * 18,
        cassette(type="session"),
        json.dumps(ABOUT).encode() + b"\n[]\n",
    ],
    ids=["empty", "a number", "nested", "nothing", "an archive", "another kind", "no session"],
)
def test_a_file_that_is_no_cassette_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "theirs.cassette"
    file.write_bytes(data)

    with pytest.raises(SessionError, match="is not a cassette"):
        read_cassette(file)


def test_a_cassette_of_another_version_is_refused_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "theirs.cassette"
    file.write_bytes(cassette(version=3))

    with pytest.raises(SessionError, match=r"version 3.*reads version 2"):
        read_cassette(file)


@pytest.mark.parametrize("session_id", ["../outside", "/outside", "..", "a\0b", "x" * 300])
def test_a_cassette_of_somebody_else_writes_nothing_elsewhere(
    tmp_path: Path, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    file = tmp_path / "theirs.cassette"
    file.write_bytes(
        cassette().replace(HEADER["id"].encode(), json.dumps(session_id)[1:-1].encode())
    )

    with pytest.raises(KodeError):
        read_cassette(file)

    assert sorted(path.name for path in tmp_path.rglob("*")) == ["own", "theirs.cassette"]


@for_each("seed", range(100))
def test_damage_anywhere_is_no_fault_of_kode(tmp_path: Path, seed: int) -> None:
    data, chance = bytearray(cassette()), random.Random(seed)
    for _ in range(4):
        data[chance.randrange(len(data))] = chance.randrange(256)
    file = tmp_path / "theirs.cassette"
    file.write_bytes(data)

    with pytest.raises(KodeError):
        read_cassette(file)


@pytest.mark.parametrize("data", [b"{", b"\xff", b"3", b'["read_file"]', b'[{"text": 1}]'])
def test_tools_wrongly_kept_by_others_count_as_not_kept(tmp_path: Path, data: bytes) -> None:
    contents = Contents(folder=paths.tool_texts(tmp_path), max_file_bytes=1000, max_bytes=1000)

    assert kept_tools(tmp_path, contents.put(data)) == {}
