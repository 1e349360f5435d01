import pytest

from kode.cli.commands.interactive import command_first
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


def test_help_lists_no_command_under_two_names(capsys):
    assert main(["help", "--all"]) == 0
    said = capsys.readouterr().out

    listed = {line.split()[0] for line in said.splitlines() if line.startswith("  ")}
    assert "extensions" in listed
    assert not listed & {"extension", "skills", "hooks", "agents", "trust", "exec"}


@pytest.mark.parametrize("words", ["skills", "extension list", "trust list", "hooks list"])
def test_the_older_name_of_a_command_still_runs(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 0


@pytest.mark.parametrize(
    ("command", "advice"),
    [("doctor", "`kode doctor --help`"), ("run fix", "Put a task of several words in quotes")],
)
def test_an_argument_too_many_gets_advice_for_its_command(command, advice, capsys):
    assert main([*command.split(), "more"]) == 3
    assert f"unexpected argument 'more'. {advice}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            "run x --permission-mode autoedit",
            "kode run: --permission-mode cannot be 'autoedit'. Did you mean auto-edit? "
            "It is one of: ask, auto-edit, plan, full.",
        ),
        (
            "run x --output-format xml",
            "kode run: --output-format cannot be 'xml'. It is one of: text, json, stream-json.",
        ),
        (
            "permissions lst",
            "kode permissions: unknown command 'lst'. Did you mean list? The commands are: ",
        ),
        ("run x --model", "kode run: --model: expected one argument. `kode run --help` lists"),
    ],
)
def test_a_value_that_is_no_choice_gets_the_choices(typed: str, said: str, capsys) -> None:
    assert main(typed.split()) == 3
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    "typed",
    ["continue --id nonesuch hi", "session show nonesuch", "-r nonesuch", "-p x --session-id x"],
)
def test_a_session_that_cannot_be_used_is_no_start(
    typed: str, capsys, monkeypatch, tmp_path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    assert main(typed.split()) == 3
    assert "session" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--plain run hi", "run hi --plain"),
        ("--model m exec hi", "exec hi --model m"),
        ("--model run hi", "--model run hi"),
        ("-p run", "-p run"),
        ("--plain continue", "continue --plain"),
    ],
)
def test_a_command_may_follow_its_flags(typed: str, meant: str) -> None:
    assert command_first(typed.split()) == meant.split()
