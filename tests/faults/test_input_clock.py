"""Clocks that jump and zones that change: orders and ids hold, and no time ends in a fault."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kode.session import index, log
from tests.session.stories import plain_turn, whole_story


def test_a_session_goes_on_when_the_clock_went_back(tmp_path: Path) -> None:
    session = whole_story(tmp_path)
    assert session.path is not None
    os.utime(session.path, (1_000, 1_000))

    opened, _ = log.load(tmp_path, session.header.id)
    plain_turn(opened, "after the jump")
    opened.close()

    (summary,) = index.list_sessions(tmp_path)
    assert summary.turns == 3
    assert opened.entries[-1].at >= opened.entries[0].at


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/St_Johns", "UTC+14", "Mars/X", ""])
def test_no_zone_stands_in_the_way(tmp_path: Path, zone: str) -> None:
    whole_story(tmp_path)
    code = (
        "import sys; from kode.cli.main import main; "
        "sys.exit(main(['session', 'list']) or main(['memory', 'log']))"
    )
    environ = {**os.environ, "TZ": zone, "KODE_HOME": str(tmp_path)}

    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "2  $0.50  look" in done.stdout
