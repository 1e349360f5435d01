"""Files that are no cassettes or damaged ones, and a kode that plays none."""

import io
import json
import random

import pytest

from kode import installed, paths
from kode.cli.main import main
from kode.errors import KodeError, SessionError
from kode.plugins.replay.recording import read_cassette
from tests.tables import for_each

ABOUT = {"type": "cassette", "version": 2, "project": "/p", "home": "/h"}
HEADER = {"type": "session", "version": 1, "id": "20260101-000000-aaaaaa", "cwd": "/p"}


def cassette(**about: object) -> bytes:
    return "\n".join(map(json.dumps, (ABOUT | about, HEADER, "no entry"))).encode() + b"\n"


ORIGIN = {"agent": "Claude Code", "session": "s", "file": "f", "digest": "d"}
IMPORTED = {**HEADER, "created_at": "", "model": "m", "provider": "p", "imported_from": ORIGIN}


@for_each(
    ("data", "reason"),
    [
        (b"", "is not a cassette"),
        (b"1", "is not a cassette"),
        (b"[" * 100_000, "is not a cassette"),
        (b"{}", "is not a cassette"),
        (b"PK\x05\x06" + b"\0" * 18, "is not a cassette"),
        (cassette(type="session"), "is not a cassette"),
        (json.dumps(ABOUT).encode() + b"\n[]\n", "is not a cassette"),
        (cassette(version=3), "version 3.*reads version 2"),
        (f"{json.dumps(ABOUT)}\n{json.dumps(IMPORTED)}\n".encode(), "made by Claude Code"),
    ],
)
def test_a_file_that_is_no_cassette_is_refused(tmp_path, data, reason):
    file = tmp_path / "theirs.cassette"
    file.write_bytes(data)

    with pytest.raises(SessionError, match=reason):
        read_cassette(file)


@for_each("session_id", ["../outside", "/outside", "..", "a\0b", "x" * 300])
def test_a_cassette_of_somebody_else_writes_nothing_elsewhere(tmp_path, session_id, monkeypatch):
    (tmp_path / "temporary").mkdir(exist_ok=True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    file, escaped = tmp_path / "theirs.cassette", json.dumps(session_id)[1:-1]
    file.write_bytes(cassette().replace(HEADER["id"].encode(), escaped.encode()))

    with pytest.raises(KodeError):
        read_cassette(file)

    assert sorted(path.name for path in tmp_path.rglob("*")) == ["temporary", "theirs.cassette"]


@for_each("seed", range(100))
def test_damage_anywhere_is_no_fault_of_kode(tmp_path, seed):
    data, chance = bytearray(cassette()), random.Random(seed)
    for _ in range(4):
        data[chance.randrange(len(data))] = chance.randrange(256)
    (tmp_path / "theirs.cassette").write_bytes(data)

    with pytest.raises(KodeError):
        read_cassette(tmp_path / "theirs.cassette")


@for_each("flag", ["--record", "--replay"])
def test_a_cassette_needs_the_plug_in_and_says_so(tmp_path, flag, capsys, monkeypatch):
    monkeypatch.setattr(installed, "enabled_plugins", lambda: ())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))

    assert main(["run", "look", flag, str(tmp_path / "run.cassette")]) == 3

    assert "kode plugin list" in capsys.readouterr().err
    assert not (tmp_path / "run.cassette").exists()
    assert not (paths.kode_home() / "sessions").exists()
