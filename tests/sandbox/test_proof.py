"""`kode doctor --sandbox`, with the kinds of sandbox that this machine has, and with one that
limits nothing."""

import json
from typing import Any

import pytest

from kode.cli.commands import doctor
from kode.sandbox.attempt import Attempt
from tests.needs import skip_without


def proved(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the findings by name."""
    code = doctor.main(["--sandbox", "--json"])
    return code, {finding["what"]: finding for finding in json.loads(capsys.readouterr().out)}


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_a_sandbox_passes_every_check_of_its_kind(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "bubblewrap":
        skip_without("bwrap")
    else:
        monkeypatch.setattr("kode.sandbox.reach.SYSTEM_PATH", "/nowhere")
    code, found = proved(capsys)
    if kind == "landlock" and found["sandbox"]["state"] == "missing":
        pytest.skip(found["sandbox"]["detail"])
    assert {finding["state"] for finding in found.values()} == {"ok"}
    assert ("git" in found) is (kind == "bubblewrap")
    assert code == 0


def test_a_sandbox_that_limits_nothing_fails_with_each_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Attempt, "_launcher", lambda attempt: ())
    code, found = proved(capsys)
    assert (code, list(found)) == (1, ["sandbox"])
    for fault in ("/kode/config.json", "writes git's", "sees other", "unix sockets", "a network"):
        assert fault in found["sandbox"]["detail"]
    assert "bubblewrap" in found["sandbox"]["detail"]  # the next step
