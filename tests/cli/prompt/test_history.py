import stat

from prompt_toolkit.history import InMemoryHistory

from kode.cli.prompt.editor import open_history


def test_the_history_is_shared_and_private(tmp_path):
    path = tmp_path / "home" / "history"

    path.parent.mkdir()
    path.touch(0o644)
    kept = open_history(path)
    for message in ("first\nmessage", "first\nmessage", " between us"):
        kept.append_string(message)

    assert list(open_history(path).load_history_strings()) == ["first\nmessage"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_credentials_do_not_reach_the_history_file(tmp_path):
    path = tmp_path / "history"
    key = "sk-ant-api03-" + "Ab3dE9xQ" * 6

    open_history(path).append_string(f"use {key} please")

    assert key not in path.read_text()
    assert "please" in path.read_text()


def test_an_unwritable_history_is_kept_in_memory(tmp_path):
    (tmp_path / "file").write_text("")

    kept = open_history(tmp_path / "file" / "history")

    assert isinstance(kept, InMemoryHistory)


def test_letters_that_no_file_takes_do_not_fail(tmp_path):
    open_history(tmp_path / "history").append_string("half \ud83d")

    assert "half ?" in (tmp_path / "history").read_text()
