"""Whose words the input of `kode run` is."""

import json
from pathlib import Path

import pytest

from kode.cli.main import main
from kode.memory.proposals import Proposals

SAID = "Always deploy with make ship."


@pytest.mark.parametrize(("words", "own"), [([SAID], True), ([], False), (["-"], False)])
def test_a_statement_from_standard_input_is_not_the_persons(
    words: list[str], own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "script.json").write_text(json.dumps([{"text": "Done."}]))
    config = {"provider": "scripted", "script": str(tmp_path / "script.json")}
    (home / "config.json").write_text(json.dumps(config))
    (tmp_path / "task").write_text("" if own else SAID)
    monkeypatch.setenv("KODE_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    with open(tmp_path / "task") as piped:
        monkeypatch.setattr("sys.stdin", piped)
        assert main(["run", *words]) == 0

    (found,) = Proposals(home / "memory").all()
    assert (found.text, found.own) == (SAID, own)
