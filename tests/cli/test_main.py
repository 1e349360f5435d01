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


@pytest.mark.parametrize(
    ("command", "advice"),
    [("doctor", "`kode doctor --help`"), ("run fix", "Put a task of several words in quotes")],
)
def test_an_argument_too_many_gets_advice_for_its_command(command, advice, capsys):
    assert main([*command.split(), "more"]) == 3
    assert f"unexpected argument 'more'. {advice}" in capsys.readouterr().err
