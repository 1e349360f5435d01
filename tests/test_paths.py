"""Paths as people write them."""

import errno
import json
import os
import pwd
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kode import paths, workplace
from kode.cli.main import main
from kode.errors import EXIT_FAILED, EXIT_NOT_STARTED, EXIT_OK
from kode.workplace import NOWHERE

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("~", "{home}"),
        ("~/notes.txt", "{home}/notes.txt"),
        ("~draft.txt", "~draft.txt"),
        ("~no-such-person/x", "~no-such-person/x"),
    ],
)
def test_a_tilde_that_is_nobodys_home_stays_in_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: str, meant: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert str(paths.expand_path(written)) == meant.format(home=tmp_path)


@pytest.mark.parametrize("path", ["~", "~/notes.txt"])
def test_a_tool_creates_no_folder_called_like_a_missing_home(path: str) -> None:
    with pytest.raises(FileNotFoundError, match="no home folder"):
        workplace.real_path(NOWHERE, path)


def test_one_module_alone_asks_for_a_home_folder() -> None:
    """`Path.home` raises RuntimeError where there is none, and `os.path.expanduser` leaves `~`."""
    asks = re.compile(r"expanduser|Path\.home\b")
    modules = sorted((ROOT / "kode").rglob("*.py"))

    assert [path.name for path in modules if asks.search(path.read_text())] == ["paths.py"]


@pytest.fixture
def without_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working directory of a user whom the system does not know, as in a container."""

    monkeypatch.setattr(pwd, "getpwuid", Mock(side_effect=KeyError))
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("KODE_HOME")
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("command", "environ"),
    [
        ("run hi", {}),
        ("doctor", {"KODE_HOME": ""}),
        ("session list", {"KODE_HOME": "~"}),
        ("continue", {"KODE_HOME": "~/kode", "HOME": "relative"}),
    ],
)
def test_a_user_without_any_home_reads_what_to_set(
    command: str, environ: Any, without_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    assert main(command.split()) == EXIT_NOT_STARTED

    (line,) = capsys.readouterr().err.splitlines()
    assert "Set KODE_HOME" in line
    assert list(without_home.iterdir()) == []


def test_kode_works_for_a_user_without_a_home_folder(
    without_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kode_home = without_home.parent / "kode"
    monkeypatch.setenv("KODE_HOME", str(kode_home))
    (without_home / "CLAUDE.md").write_text("See @~/notes.md and ~/x.")
    script = without_home / "script.jsonl"
    script.write_text(json.dumps({"text": "Hello."}))

    assert main(["run", "hi", "--provider", "scripted", "--script", str(script)]) == EXIT_OK
    assert main(["doctor", "--json"]) == EXIT_FAILED

    answer, findings = capsys.readouterr().out.split("\n", 1)
    assert answer == "Hello."
    states = {row["what"]: (row["state"], row["detail"]) for row in json.loads(findings)}
    assert {what for what, (state, _) in states.items() if state == "missing"} == {"key"}
    assert [path.name for path in without_home.iterdir() if path.name.startswith("~")] == []
    assert paths.short_path("/a") == "/a"


def test_a_folder_that_was_swapped_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    realpath = Mock(side_effect=[OSError(errno.EINVAL, "it was a link"), "/real"])
    monkeypatch.setattr(os.path, "realpath", realpath)

    assert paths.real_path("/link") == "/real"
