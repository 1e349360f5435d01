import stat

from prompt_toolkit.history import InMemoryHistory

from kode.cli.editor import open_history


def test_the_history_is_shared_and_private(tmp_path):
    path = tmp_path / "home" / "history"

    open_history(path).append_string("first\nmessage")

    assert list(open_history(path).load_history_strings()) == ["first\nmessage"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_history_that_others_could_read_is_made_private(tmp_path):
    path = tmp_path / "history"
    path.write_text("")
    path.chmod(0o644)

    open_history(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_credentials_do_not_reach_the_history_file(tmp_path):
    path = tmp_path / "history"
    key = "sk-ant-api03-" + "Ab3dE9xQ" * 6

    open_history(path).append_string(f"use {key} please")

    assert key not in path.read_text()
    assert "please" in path.read_text()


def test_where_it_cannot_be_written_the_history_is_kept_in_memory(tmp_path):
    (tmp_path / "file").write_text("")

    history = open_history(tmp_path / "file" / "history")

    assert isinstance(history, InMemoryHistory)
