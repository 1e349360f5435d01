"""`kode memory` as a person types it, in this process."""

import pytest

from kode.cli.main import main


@pytest.fixture(autouse=True)
def at_home(tmp_path, monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "KODE_API_KEY", "KODE_MEMORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["remove", "user", "nothing"], 1),
        (["undo"], 1),
        (["add", "foo", "x"], 3),
        (["frobnicate"], 3),
        (["add", "user", "x", "--wrong"], 3),
        (["status", "--memory", "elephant"], 3),
    ],
)
def test_an_impossible_request_ends_with_its_exit_code(argv, code, capsys):
    assert main(["memory", *argv]) == code

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kode")


def test_memory_that_is_off_says_so(tmp_path, capsys):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/config.json").write_text('{"memory": {"enabled": false}}')

    assert main(["memory", "show"]) == 1
    assert "Memory is off" in capsys.readouterr().err


def test_consolidating_without_a_key_says_how_to_get_one(tmp_path, capsys):
    main(["memory", "add", "user", "likes tabs"])
    main(["memory", "add", "user", "lives in Lisbon"])

    assert main(["memory", "consolidate", "user"]) == 1
    assert "kode init" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["show"], ["status"], ["why", "tabs"], ["export"]])
def test_reading_creates_nothing(tmp_path, command):
    main(["memory", *command])
    assert not (tmp_path / "home").exists()
