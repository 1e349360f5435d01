"""Formats of `kode session export` that plug-ins add, and exports that go to a file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kode import installed, paths
from kode.cli.commands import session
from kode.errors import ConfigError
from kode.installed import ExportFile, Plugin
from kode.session.transcript import Transcript
from tests.cli.commands.answers import run
from tests.session.stories import new_session, plain_turn

Adding = Callable[..., str]
PACKED = ExportFile(data=b"packed", contains=["your words"], then="`tally {path}` reads it.")


@pytest.fixture
def session_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Adding:
    """A session beside a plug-in that has the format `tally`, made by this function."""

    def adding(export: Callable[[Transcript], str | ExportFile]) -> str:
        tally = Plugin(name="tally", summary="counts", exports={"tally": "somewhere:export"})
        monkeypatch.setattr(installed, "plugins", lambda: (tally,))
        monkeypatch.setattr(installed, "load", lambda plugin, where: export)
        session = new_session(paths.home())
        plain_turn(session, "one")
        session.close()
        return str(session.id)

    return adding


def test_a_format_of_a_plugin_is_printed(
    session_with: Adding, capsys: pytest.CaptureFixture[str]
) -> None:
    session_id = session_with(lambda transcript: f"the session {transcript.header.id}")
    assert run(session, ["export", session_id, "--format", "tally"]) == 0
    assert capsys.readouterr().out == f"the session {session_id}\n"


def test_an_export_to_a_file_needs_its_name(session_with: Adding) -> None:
    with pytest.raises(ConfigError, match="--format tally FILE"):
        run(session, ["export", session_with(lambda transcript: PACKED), "--format", "tally"])


def test_a_file_is_written_after_a_yes(
    session_with: Adding, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    argv = ["export", session_with(lambda transcript: PACKED), str(file), "--format", "tally"]
    with pytest.raises(ConfigError, match="--yes"):
        run(session, argv)
    assert not file.exists()
    assert run(session, [*argv, "--yes"]) == 0
    assert file.read_bytes() == b"packed"
    ran = capsys.readouterr()
    assert f"`tally {file}` reads it." in ran.out
    assert "your words" in ran.err
