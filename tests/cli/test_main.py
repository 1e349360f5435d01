"""The command line: commands, flags, and what is said of those that there are not."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kode.cli.commands.interactive import is_set_up
from kode.cli.flags import add_conversation_flags, config_flags
from kode.cli.main import main
from kode.cli.parser import COMMANDS, Parser, suggest
from kode.errors import ConfigError
from kode.registry import PROVIDERS
from tests.tables import for_each

CASES = Path(__file__).parent / "data" / "elsewhere_flags.jsonl"
LISTED = [name for name, (_, about) in COMMANDS.items() if about]


def conversation_parser() -> Parser:
    parser = Parser("kode run", "")
    add_conversation_flags(parser)
    return parser


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_the_narrowest_usual_terminal(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    assert main([*command.split(), "--help"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3
    assert [line for line in lines if len(line) > 79] == []


def test_help_lists_no_command_under_two_names(capsys):
    assert main(["help", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()

    listed = {line.split()[0] for line in lines if line.startswith("  ")}
    assert "extensions" in listed
    assert not listed & {"extension", "skills", "hooks", "agents", "trust", "exec"}


@pytest.mark.parametrize("words", ["skills", "extension list", "trust list", "hooks list"])
def test_the_older_name_of_a_command_still_runs(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 0


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            "run x --permission-mode autoedit",
            "kode run: --permission-mode cannot be 'autoedit'. Did you mean auto-edit? "
            "It is one of: ask, auto-edit, plan, full.",
        ),
        (
            "permissions lst",
            "kode permissions: unknown command 'lst'. Did you mean list? The commands are: ",
        ),
        ("run x --model", "kode run: --model: expected one argument. `kode run --help` lists"),
        ("--plain run hi", "kode: unexpected argument 'hi'. Put a task in quotes, and a command"),
        ("doctor more", "kode doctor: unexpected argument 'more'. `kode doctor --help`"),
        (
            "run fix more",
            "kode run: unexpected argument 'more'. Put a task in quotes, and a command",
        ),
        ("continue --id nonesuch hi", "kode: There is no session 'nonesuch'"),
        ("-r nonesuch", "kode: There is no session 'nonesuch'"),
        ("-p x --session-id x", "kode: 'x' is no session id"),
    ],
)
def test_a_wrong_word_gets_the_right_ones(
    typed: str, said: str, capsys, monkeypatch, tmp_path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert main(typed.split()) == 3
    assert capsys.readouterr().err.startswith(said)


@given(st.sampled_from([name for name in LISTED if len(name) > 5]), st.data())
def test_a_command_with_one_slip_is_found(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 2))
    before, after = name[:at], name[at + 1 :]
    slips = (after, f"z{name[at:]}", f"z{after}", f"{after[:1]}{name[at]}{after[1:]}")
    assert suggest(before + data.draw(st.sampled_from(slips)), LISTED) == f" Did you mean {name}?"


@pytest.mark.parametrize("flag", ["--image", "--no-sandbox", "-v", "--worktree", "-x"])
def test_a_word_far_from_every_flag_is_not_guessed(flag: str) -> None:
    assert suggest(flag, conversation_parser()._option_string_actions) == ""


@for_each("case", [json.loads(line) for line in CASES.read_text().splitlines()])
def test_a_flag_known_from_elsewhere_sets_what_it_means(case: dict) -> None:
    assert config_flags(conversation_parser().parse(case["argv"])) == case["sets"]


def test_a_script_is_played_whatever_provider_the_config_names() -> None:
    flags = config_flags(conversation_parser().parse(["--script", "a.json"]))
    assert flags == {"script": "a.json", "provider": "scripted"}
    with pytest.raises(ConfigError, match="not openai"):
        config_flags(conversation_parser().parse(["--script", "a.json", "--provider", "openai"]))


@pytest.mark.parametrize("name", ["", "GROQ_API_KEY", "AZURE_OPENAI_BASE_URL", "OPENAI_BASE_URL"])
def test_a_variable_of_any_provider_is_a_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for row in PROVIDERS:
        for variable in filter(None, (row.key_variable, row.url_variable)):
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("KODE_HOME", str(tmp_path))
    if name:
        monkeypatch.setenv(name, "http://127.0.0.1:1/v1")

    assert is_set_up(conversation_parser().parse([]), tmp_path) is bool(name)
