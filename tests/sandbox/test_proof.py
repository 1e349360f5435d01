"""`kode doctor --sandbox`, with the kinds of sandbox that this machine has, and with one that
limits nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from kode.cli.commands import doctor
from kode.sandbox.sandbox import Sandbox
from tests.needs import needs


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def proved(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the findings by name."""
    code = doctor.main(["--sandbox", "--json"])
    return code, {one["what"]: one for one in json.loads(capsys.readouterr().out)}


@needs("bwrap")
def test_bubblewrap_passes_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = proved(capsys)
    assert {one["state"] for one in found.values()} == {"ok"}
    assert "git" in found
    assert code == 0


def test_landlock_alone_passes_every_check_it_can(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kode.sandbox.reach.SYSTEM_PATH", "/nowhere")
    code, found = proved(capsys)
    if found["sandbox"]["state"] == "missing":
        pytest.skip(found["sandbox"]["detail"])
    assert {one["state"] for one in found.values()} == {"ok"}
    assert "git" not in found
    assert code == 0


def test_a_sandbox_that_limits_nothing_fails_with_each_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nothing:
        descriptors = ()

        def wrap(self, argv: tuple[str, ...]) -> None:
            self.argv = argv

        def settle(self) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr(Sandbox, "begin", lambda *given, **more: Nothing())
    code, found = proved(capsys)
    assert (code, list(found)) == (1, ["sandbox"])
    for fault in ("/kode/config.json", "writes git's", "sees other", "unix sockets", "a network"):
        assert fault in found["sandbox"]["detail"]


def test_a_missing_sandbox_fails_and_names_the_next_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kode.sandbox.trial.find_fault", lambda *given, **more: "broken")
    code, found = proved(capsys)
    assert (code, list(found)) == (1, ["sandbox"])
    assert "bubblewrap" in found["sandbox"]["detail"]
