"""`kode run --record` and `--replay` where nothing plays cassettes."""

import json

import pytest

from kode import installed, paths
from kode.cli.main import main


@pytest.mark.parametrize("flag", ["--record", "--replay"])
def test_a_cassette_needs_the_plug_in_and_says_so(tmp_path, flag, capsys):
    file = tmp_path / "run.cassette"
    paths.home().mkdir(parents=True, exist_ok=True)
    config = {"plugins": {"replay": {"enabled": False}}}
    paths.config_file(paths.home()).write_text(json.dumps(config))
    installed.forget()
    try:
        code = main(["run", "look", flag, str(file)])
    finally:
        installed.forget()

    assert code == 3
    assert "kode plugin list" in capsys.readouterr().err
    assert not file.exists()
    assert not (paths.home() / "sessions").exists()
