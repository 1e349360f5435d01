"""kode is killed while commands run: they do not live on, its own as little as a subagent's."""

import contextlib
import os
import time
from pathlib import Path

import pytest

from tests.faults.lives import EPISODE, call, calls, task
from tests.faults.place import Place

ENDED_S = 40.0
SECONDS = "58.75"
STAYS = f"sh -c 'echo $$ >> pids; exec sleep {SECONDS}'"
COMMAND = f"{STAYS} & setsid {STAYS} & env -i PATH=/usr/bin:/bin {STAYS}"
RUNS = calls(call("shell", command=COMMAND))
IN_BACKGROUND = calls(call("shell", command=COMMAND, background=True))
WAITS = calls(call("job", id="bg1", wait_s=60))
DELEGATES = calls(call("delegate_tasks", tasks=[{"goal": "Wait."}]))


def count_living(pids: Path) -> int:
    """How many of the processes that wrote down their ids live. The id of one that has ended may be
    another's by now; one that nobody has waited for has no command line."""
    count = 0
    for pid in pids.read_text().split() if pids.exists() else ():
        with contextlib.suppress(OSError):
            count += SECONDS.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return count


def wait_for(pids: Path, count: int) -> bool:
    deadline = time.monotonic() + ENDED_S
    while count_living(pids) != count and time.monotonic() < deadline:
        time.sleep(0.05)
    return count_living(pids) == count


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked for in /proc")
@pytest.mark.parametrize(
    "script",
    [[RUNS], [IN_BACKGROUND, WAITS], [{"match": "(?m)^# Goal", **RUNS}, DELEGATES]],
    ids=["its own", "in the background", "of a subagent"],
)
def test_no_command_outlives_a_kode_that_was_killed(
    tmp_path: Path, script: list[dict[str, object]]
) -> None:
    place = Place(tmp_path / "place")
    pids = place.project / "pids"
    with place.start(*task(place, [EPISODE, *script], "run", "Wait.")) as process:
        try:
            assert wait_for(pids, 3)
        finally:
            process.kill()

    assert wait_for(pids, 0)
