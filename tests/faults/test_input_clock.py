"""Clocks that jump and zones that change: orders and ids hold, and no time ends in a fault."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kode.memory.journal import queue
from kode.memory.journal.queue import new_id
from kode.memory.tiered.episode_files import Pending, PendingFolder
from kode.session import index, log
from tests.session.stories import plain_turn, whole_story

HOUR_NS = 3_600 * 10**9


def test_conversations_stay_in_order_when_the_clock_goes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = "20260301-120000-abcdef"
    first = new_id(session, [])
    monkeypatch.setattr(queue.time, "time_ns", lambda: time.monotonic_ns() % HOUR_NS)

    second = new_id(session, [first, "20990101-120000-abcdef.99999999999999999999aaaaaa"])
    third = new_id(session, [first, second])

    assert first < second < third


def test_a_claim_by_a_clock_ahead_is_free_again(tmp_path: Path) -> None:
    folder = PendingFolder(tmp_path)
    kept = Pending(
        session_id="20260301-120000-abcdef",
        turns=3,
        at="2026-03-01T12:00:00+00:00",
        tainted=False,
        transcript="user: hi",
        claimed_until=time.time() + 365 * 86_400,
    )
    folder.write(kept)

    assert folder.claim(kept.session_id, lease_s=60.0) is not None
    assert folder.claim(kept.session_id, lease_s=60.0) is None


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
    assert "2 turns" in done.stdout
