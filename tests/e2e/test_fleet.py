"""`kode fleet` as a person and a script use it."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.background import until
from tests.e2e.command import Finished, Place
from tests.needs import skip_without

DONE = {"text": "Done."}


def calls(name: str, **arguments: str) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


SCRIPT = [
    {"match": "Write one", **calls("write_file", path="one.txt", content="1\n"), "then": [DONE]},
    {"match": "Write two", **calls("write_file", path="two.txt", content="2\n"), "then": [DONE]},
    {
        "match": "Wait",
        **calls("shell", command="echo waited >> effects; touch begun; sleep 600"),
        "then": [DONE],
    },
    {"match": "was interrupted", **DONE},
]


@pytest.fixture
def fleet(tmp_path: Path) -> "FleetPlace":
    skip_without("git")
    place = FleetPlace(tmp_path)
    for arguments in (
        ["init", "-q"],
        ["config", "user.name", "a"],
        ["config", "user.email", "a@b"],
    ):
        subprocess.run(["git", *arguments], cwd=place.project, check=True)
    (place.project / "a.txt").write_text("a\n")
    subprocess.run(["git", "add", "."], cwd=place.project, check=True)
    subprocess.run(["git", "commit", "-qm", "Begin"], cwd=place.project, check=True)
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    place.extra["KODE_MODEL"] = ""
    return place


class FleetPlace(Place):
    @property
    def flags(self) -> list[str]:
        return ["--", "--script", str(self.folder / "script.json"), "--no-memory"]

    def tasks(self, *rows: dict[str, Any] | str) -> str:
        path = self.folder / "tasks.jsonl"
        objects = [{"task": row} if isinstance(row, str) else row for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in objects))
        return str(path)

    def status(self) -> dict[str, dict[str, Any]]:
        rows = self.run("fleet", "status", "--json").lines
        return {row["task"]: row for row in rows}


def last(finished: Finished) -> dict[str, Any]:
    return finished.lines[-1]


def test_each_task_works_in_its_own_tree_and_is_collected(
    fleet: FleetPlace,
) -> None:
    tasks = fleet.tasks({"task": "Write one", "verify": "test -e one.txt"}, "Write two")
    ran = fleet.run("fleet", "run", tasks, *fleet.flags)
    assert ran.code == 0, ran.err
    assert [line["type"] for line in ran.lines].count("finished") == 2
    assert (last(ran)["good"], last(ran)["bad"]) == (2, 0)
    rows = fleet.status()
    assert rows["1"]["verify"] == "passed"
    assert rows["2"]["files"] == ["two.txt"]
    assert sorted(path.name for path in fleet.project.iterdir()) == [".git", "a.txt"]
    sessions = {path.stem for path in fleet.session_files}
    assert sessions == {row["session"] for row in rows.values()}
    mails = fleet.run("fleet", "collect").out
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    subprocess.run(["git", *who, "am", "-3"], cwd=fleet.project, check=True, input=mails.encode())
    assert {"one.txt", "two.txt"} <= {path.name for path in fleet.project.iterdir()}


WAITS = {"task": "Wait", "id": "waits", "mode": "full", "isolate": "none"}


@pytest.mark.parametrize("killed", ["the driver", "all at once"])
def test_killed_tasks_are_continued_and_ended_ones_never_rerun(
    killed: str, fleet: FleetPlace
) -> None:
    tasks = fleet.tasks("Write one", WAITS)
    with fleet.start("fleet", "run", tasks, "--jobs", "1", *fleet.flags) as driver:
        until((fleet.project / "begun").exists)
        if killed == "all at once":
            os.kill(driver.pid, signal.SIGSTOP)
            for pid in Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        os.kill(driver.pid, signal.SIGKILL)
        driver.communicate()
    before = fleet.status()
    assert (before["1"]["status"], before["waits"]["status"]) == ("success", "interrupted")
    resumed = fleet.run("fleet", "resume")
    assert resumed.code == 0, resumed.err
    after = fleet.status()
    assert after["1"] == before["1"]
    assert after["waits"]["session"] == before["waits"]["session"]
    assert after["waits"]["starts"] == 2
    # A process that is only asked to end records itself that the call was interrupted.
    unknown = after["waits"]["unknown"]
    assert ["sleep 600" in call for call in unknown] == ([True] if killed == "all at once" else [])
    assert (fleet.project / "effects").read_text() == "waited\n"


def test_cancel_ends_what_runs(fleet: FleetPlace) -> None:
    tasks = fleet.tasks(WAITS, "Write one")
    with fleet.start("fleet", "run", tasks, "--jobs", "1", *fleet.flags) as driver:
        until((fleet.project / "begun").exists)
        assert fleet.run("fleet", "cancel").code == 0
        driver.communicate(timeout=60)
    assert driver.returncode == 1
    assert {row["status"] for row in fleet.status().values()} == {"cancelled"}
    assert fleet.run("fleet", "resume").code == 3
