import pytest

from kode.cli.main import main
from kode.cli.parser import COMMANDS


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_the_narrowest_usual_terminal(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    try:
        code = main([*command.split(), "--help"])
    except SystemExit as left:
        code = left.code

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert len(lines) > 4
    assert [line for line in lines if len(line) > 79] == []
