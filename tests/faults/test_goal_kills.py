"""kode is killed at the calls that change files while it pursues a goal. The next `kode continue`
reaches it: no attempt is lost or repeated, and what the check runs is as it was.

Here a sample of the calls; `make faults` takes a hundred, or all.
"""

from pathlib import Path
from typing import Any

import pytest

from kode.session import upkeep
from tests.faults.file_events import Point
from tests.faults.kode_run import call, spread
from tests.faults.test_kill_at_file_events import LONG, SAMPLE, Place, Seen
from tests.needs import skip_without

CHECK = "grep -q right answer.txt\n"
WORK = [
    {"text": "It is done."},
    {"text": "", "calls": [call("shell", command="echo right > answer.txt")]},
    {"text": "Now it is done."},
]
GOAL = ("run", "--goal", "the answer is right", "--verify", "sh tests/check.sh")


def attempts_in(shown: Seen) -> list[dict[str, Any]]:
    """Those that programs were told of."""
    values = [one.get("value") or {} for one in shown if one["type"] == "notice"]
    return [
        {key: value for key, value in one.items() if key != "type"}
        for one in values
        if one.get("type") == "goal_attempt"
    ]


def goal_in(shown: Seen) -> dict[str, Any]:
    return next((one["goal"] for one in shown if one["type"] == "result" and one["goal"]), {})


@pytest.mark.timeout(3600 if LONG else 300)
def test_a_goal_killed_anywhere_loses_and_repeats_no_attempt(tmp_path: Path) -> None:
    skip_without("bwrap")
    place = Place(tmp_path / "place")
    place.prepare()
    place.script(WORK)
    (place.project / "tests").mkdir()
    (place.project / "tests" / "check.sh").write_text(CHECK)
    (place.project / "answer.txt").write_text("wrong\n")
    place.keep()
    counted, begins = tmp_path / "counted", "kode.plugins.goals.command:begin"
    whole = place.task(*GOAL, point=Point(begins, counted=str(counted)))
    assert goal_in(whole)["status"] == "reached"
    total = int(counted.read_text())
    assert total > 20

    faults: list[str] = []
    kills = 0
    for number in spread(range(1, total + 1), SAMPLE):
        place.restore()
        shown = place.task(*GOAL, point=Point(begins, "", number))
        kills += place.killed
        goal = goal_in(shown)
        if goal.get("status") != "reached":
            told = place.task("continue")
            goal = goal_in(told)
            # It may have been reached on disk, and only the result was not told.
            ended = any("There is no task" in one.get("text", "") for one in told)
            if ended:
                place.task("continue", "Are you there?")
            if not ended and goal.get("status") != "reached":
                faults.append(f"{number}: {goal} {told[-1]}")
            known = goal.get("attempts", [])
            numbers = [one["attempt"] for one in known]
            if numbers != list(range(1, len(known) + 1)):
                faults.append(f"{number}: attempts {numbers}")
            if not ended and not all(one in known for one in attempts_in(shown)):
                faults.append(f"{number}: an attempt that was told of is lost or changed")
        if (place.project / "tests" / "check.sh").read_text() != CHECK:
            faults.append(f"{number}: what the check runs has changed")
        if (place.project / "answer.txt").read_text() != "right\n":
            faults.append(f"{number}: the goal is not in the tree")
        faults += [f"{number}: {one}" for one in place.left_behind()]
        upkeep.check(place.home, repair=True)
    assert faults == []
    assert kills > 0
