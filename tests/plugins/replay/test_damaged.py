"""Files that are no cassettes, or damaged ones."""

import json
import random
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from kode import paths
from kode.errors import KodeError, SessionError
from kode.plugins.replay.cassette import open_cassette
from kode.session.content_store import Contents
from kode.session.requests import kept_tools

ABOUT = {"version": 1, "session": "20260101-000000-aaaaaa", "project": "/p", "home": "/h"}


def cassette(about: str = json.dumps(ABOUT)) -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("cassette.json", about)
        file.writestr("session.jsonl", "no session\n" * 50)
    return packed.getvalue()


@pytest.mark.parametrize(
    "data",
    [b"", cassette("1"), cassette("[" * 100_000), cassette("{}"), cassette()[:-30]],
    ids=["empty", "a number", "nested", "nothing", "cut"],
)
def test_a_file_that_is_no_cassette_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "theirs.cassette"
    file.write_bytes(data)

    with pytest.raises(SessionError, match="is not a cassette"), open_cassette(file):
        pass


@pytest.mark.parametrize("seed", range(100))
def test_damage_anywhere_is_no_fault_of_kode(tmp_path: Path, seed: int) -> None:
    data, chance = bytearray(cassette()), random.Random(seed)
    for _ in range(4):
        data[chance.randrange(len(data))] = chance.randrange(256)
    file = tmp_path / "theirs.cassette"
    file.write_bytes(data)

    with pytest.raises(KodeError), open_cassette(file):
        pass


@pytest.mark.parametrize("data", [b"{", b"\xff", b"3", b'["read_file"]', b'[{"text": 1}]'])
def test_tools_wrongly_kept_by_others_count_as_not_kept(tmp_path: Path, data: bytes) -> None:
    contents = Contents(folder=paths.tool_texts(tmp_path), max_file_bytes=1000, max_bytes=1000)

    assert kept_tools(tmp_path, contents.put(data)) == {}
