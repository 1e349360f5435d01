"""Paths as people write them."""

import errno
import os
import re
from pathlib import Path

import pytest

from kode import paths
from kode.config.model import Config

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("~", "{home}"),
        ("~/notes.txt", "{home}/notes.txt"),
        ("a/~/b", "a/~/b"),
        ("~draft.txt", "~draft.txt"),
        ("~no-such-person/x", "~no-such-person/x"),
    ],
)
def test_a_tilde_that_is_nobodys_home_stays_in_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: str, meant: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert str(paths.expand(written)) == meant.format(home=tmp_path)


def test_settings_may_name_such_a_folder(tmp_path: Path) -> None:
    config = Config(add_dirs=("~no-such-person",))

    assert config.roots(tmp_path)[0] == tmp_path
    assert paths.memory_folder(tmp_path, "~no-such-person") == tmp_path / "~no-such-person"


def test_no_module_expands_a_home_by_a_method_that_raises() -> None:
    """`Path.expanduser` raises RuntimeError for `~draft.txt`, which is the name of a file."""
    modules = sorted((ROOT / "kode").rglob("*.py"))

    assert [path for path in modules if re.search(r"\.expanduser\(\)", path.read_text())] == []


def test_a_folder_that_was_swapped_is_looked_at_again(tmp_path, monkeypatch):
    looks = iter([OSError(errno.EINVAL, "it was a link"), str(tmp_path)])

    def realpath(path):
        look = next(looks)
        if isinstance(look, OSError):
            raise look
        return look

    monkeypatch.setattr(os.path, "realpath", realpath)

    assert paths.real_path(tmp_path / "d") == str(tmp_path)
