"""Goals of the installed kode: the exit status of a command decides, whatever the model does."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from kode.plugin import run_git
from kode.plugins.goals import words
from tests.e2e.command import Finished, Place, needs_a_whole_sandbox
from tests.needs import skip_without
from tests.scripted_server import Script, ScriptedServer

RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"
CHECK = "grep -q 'a + b' calc.py\n"
VERIFY = "sh tests/check.sh"
DONE = {"text": "All of it is done, and the check passes."}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


READ = call("read_file", path="calc.py")
FIX = call("edit_file", path="calc.py", old_text="a - b", new_text="a + b")


@pytest.fixture
def goal_place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    needs_a_whole_sandbox(place)
    (place.project / "tests").mkdir()
    (place.project / "tests" / "check.sh").write_text(CHECK)
    (place.project / "calc.py").write_text(WRONG)
    return place


def pursue(place: Place, script: Script, *flags: str, verify: str = VERIFY) -> Finished:
    with ScriptedServer(script, repeat_last=True) as server:
        place.url = server.openai_url
        mode = () if "--permission-mode" in flags else ("--permission-mode", "auto-edit")
        return place.run(
            *("run", "--goal", "add adds", "--verify", verify, "--output-format", "json"),
            *(*mode, *flags),
        )


def resume(place: Place, script: Script, *flags: str) -> Finished:
    with ScriptedServer(script, repeat_last=True) as server:
        place.url = server.openai_url
        done = place.run(
            *("continue", "--output-format", "json", "--permission-mode", "auto-edit", *flags)
        )
        asked = [one for one in server.requests if one.path.endswith("completions")]
        (place.folder / "asked").write_text(str(len(asked)))
        return done


def test_a_goal_is_reached_by_its_check_alone(goal_place: Place) -> None:
    done = pursue(goal_place, [DONE, READ, FIX, DONE])
    goal = done.json["goal"]
    assert (done.code, done.json["status"], goal["status"]) == (0, "success", "reached")
    assert [(one["passed"], one["exit_status"]) for one in goal["attempts"]] == [
        (False, 1),
        (True, 0),
    ]
    assert goal["attempts"][1]["files"] == [{"path": "calc.py", "added": 1, "removed": 1}]
    assert done.json["checked"] == "passed"


def test_a_model_that_only_claims_success_stalls(goal_place: Place) -> None:
    done = pursue(goal_place, [DONE])
    assert (done.code, done.json["status"]) == (1, "incomplete")
    assert done.json["goal"]["status"] == "stalled"
    assert len(done.json["goal"]["attempts"]) == 3


def test_edits_that_come_and_go_stall(goal_place: Place) -> None:
    texts = ["x = 1\n", "x = 2\n"]
    count = [0]

    def script(request: dict[str, Any]) -> dict[str, Any]:
        count[0] += 1
        if count[0] % 2 == 0:
            return DONE
        return call("write_file", path="calc.py", content=texts[count[0] // 2 % 2])

    goal = pursue(goal_place, [READ, DONE, *[script({}) for _ in range(20)]]).json["goal"]
    assert goal["status"] == "stalled"
    assert len(goal["attempts"]) < 8


def test_a_model_that_goes_in_circles_stalls(goal_place: Place) -> None:
    done = pursue(goal_place, [READ])
    goal = done.json["goal"]
    assert (done.code, done.json["status"], goal["status"]) == (1, "incomplete", "stalled")
    assert [one["passed"] for one in goal["attempts"]] == [False, False, False]


def test_a_goal_whose_model_cannot_be_asked_stays_unfinished(goal_place: Place) -> None:
    refused = {"error": {"status": "refused", "text": "no"}}
    done = pursue(goal_place, [READ, refused])
    assert (done.code, done.json["goal"]["status"]) == (1, "unfinished")
    assert done.json["goal"]["attempts"] == []


EDITS = {
    "a file tool": call("write_file", path="tests/check.sh", content="exit 0\n"),
    "a command": call("shell", command="echo 'exit 0' > tests/check.sh"),
    "a deletion": call("shell", command="rm -r tests; mkdir tests; echo > tests/check.sh"),
    "a move": call("shell", command="mv tests old; cp -r old tests; echo > tests/check.sh"),
    "a link": call("shell", command="rm -r tests; ln -s old tests"),
    "a new conftest": call("write_file", path="conftest.py", content="import os; os._exit(0)\n"),
    "a new conftest by a command": call("shell", command="echo 'import x' > conftest.py"),
    "a new setup of the check": call("write_file", path="pytest.ini", content="[pytest]\n"),
    "a program before the check's": call("write_file", path="sh", content="exit 0\n"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_protected_files_stay_as_they_were(goal_place: Place, edit: dict[str, Any]) -> None:
    done = pursue(goal_place, [edit, DONE])
    assert done.json["goal"]["status"] == "stalled"
    assert [path.name for path in (goal_place.project / "tests").iterdir()] == ["check.sh"]
    assert (goal_place.project / "tests" / "check.sh").read_text() == CHECK
    assert {path.name for path in goal_place.project.iterdir()} - {"old"} == {"calc.py", "tests"}


MAKEFILE = "test:\n\t@sh scripts/check.sh\n"
UNITTEST = """\
import unittest
import calc

class Sums(unittest.TestCase):
    def test_add(self):
        self.assertEqual(calc.add(1, 2), 3)

if __name__ == "__main__":
    unittest.main()
"""
SCRIPT = "PYTHONPATH=. python3 tests/test_calc.py && python3 scripts/product.py\n"
PASSES = "import os\nos._exit(0)\n"
READS_ALL = "cat tests/*.py >/dev/null\nexit 0\n"


@pytest.fixture
def made_place(goal_place: Place) -> Place:
    """A project whose check is `make test`, which runs a script, which runs the tests."""
    skip_without("make")
    for name, text in (
        ("Makefile", MAKEFILE),
        ("scripts/check.sh", SCRIPT),
        ("scripts/product.py", "print('runs after the tests')\n"),
        ("tests/test_calc.py", UNITTEST),
    ):
        path = goal_place.project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return goal_place


def test_scripts_of_the_check_are_protected(made_place: Place) -> None:
    edits = [
        call("write_file", path="scripts/check.sh", content=READS_ALL),
        call("shell", command=f"printf '{READS_ALL!r}' > scripts/check.sh"),
    ]
    done = pursue(made_place, [*edits, DONE], verify="make test")
    assert done.json["goal"]["status"] == "stalled"
    assert (made_place.project / "scripts" / "check.sh").read_text() == SCRIPT


def test_a_file_that_shadows_a_module_is_removed(made_place: Place) -> None:
    names = ["tests/unittest.py", "difflib.py", "tests/json/__init__.py"]
    edits = [call("write_file", path=name, content=PASSES) for name in names]
    done = pursue(made_place, [*edits, DONE], verify="make test")
    goal = done.json["goal"]
    assert goal["status"] == "stalled"
    assert "tests/unittest.py" in goal["attempts"][0]["restored"]
    assert "difflib.py" in goal["attempts"][0]["restored"]
    assert goal["attempts"][0]["exit_status"] != 0


def test_a_product_may_change(made_place: Place) -> None:
    edits = [
        call("write_file", path="scripts/product.py", content="print('changed')\n"),
        call("write_file", path="helper.py", content="def add(a, b):\n    return a + b\n"),
        READ,
        call("write_file", path="calc.py", content="from helper import add\n"),
    ]
    done = pursue(made_place, [*edits, DONE], verify="make test")
    assert done.json["goal"]["status"] == "reached"
    assert done.json["goal"]["attempts"][0]["restored"] == []


def test_a_pass_that_skips_a_protected_file_does_not_count(goal_place: Place) -> None:
    tests = goal_place.project / "tests"
    (tests / "first.py").write_text("import json\nimport calc\n")
    (tests / "second.py").write_text("import calc\nassert calc.add(1, 2) == 3\n")
    check = "PYTHONPATH=. python3 -c 'exec(open(\"tests/first.py\").read()); import tests.second'"
    cheat = call("write_file", path="calc.py", content=PASSES)
    goal = pursue(goal_place, [READ, cheat, DONE], verify=check).json["goal"]
    assert goal["status"] == "stalled"
    assert goal["attempts"][0]["exit_status"] == 0
    assert goal["attempts"][0]["unread"] == ["tests/second.py"]


def test_a_protected_file_changed_outside_the_sandbox_is_put_back(goal_place: Place) -> None:
    write = "open('tests/check.sh', 'w').write('exit 0\\n'); open('conftest.py', 'w')"
    cheat = call("shell", command=f'python3 -c "{write}"')
    done = pursue(goal_place, [cheat, DONE], "--permission-mode", "full")
    goal = done.json["goal"]
    assert goal["status"] == "stalled"
    assert goal["attempts"][0]["restored"] == ["tests/check.sh", "conftest.py"]
    assert (goal_place.project / "tests" / "check.sh").read_text() == CHECK
    assert not (goal_place.project / "conftest.py").exists()
    kept = [path.read_text() for path in goal_place.home.glob("sessions/*/goals/*-check.sh*")]
    assert kept == ["exit 0\n"]


def test_a_new_file_that_git_ignores_is_removed_once_read(goal_place: Place) -> None:
    skip_without("git")
    run_git(goal_place.project, ["init", "-q"])
    (goal_place.project / ".gitignore").write_text("conftest.py\n")
    (goal_place.project / "tests" / "check.sh").write_text(f". ./conftest.py; {CHECK}")
    write = "open('conftest.py', 'w').write('exit 0\\n')"
    cheat = call("shell", command=f'python3 -c "{write}"')
    goal = pursue(goal_place, [cheat, DONE], "--permission-mode", "full").json["goal"]
    first, second = goal["attempts"][:2]
    assert goal["status"] == "stalled"
    assert (first["exit_status"], first["differing"]) == (0, ["conftest.py"])
    assert second["restored"] == ["conftest.py"]
    assert not (goal_place.project / "conftest.py").exists()


def test_a_goal_that_protects_nothing_may_change_its_check(goal_place: Place) -> None:
    edit = call("shell", command="echo 'exit 0' > tests/check.sh")
    assert pursue(goal_place, [edit, DONE], "--protect", "none").json["goal"]["status"] == "reached"


def test_a_check_with_a_pipe_fails_with_its_first_part(goal_place: Place) -> None:
    done = pursue(goal_place, [DONE], verify=f"cd . && {VERIFY} | cat")
    assert done.json["goal"]["status"] == "stalled"
    assert [one["exit_status"] for one in done.json["goal"]["attempts"]] == [1, 1, 1]


def test_a_check_that_passes_before_any_change_is_reported(goal_place: Place) -> None:
    flags = ("--goal", "add adds", "--verify", "true", "--output-format", "stream-json")
    with ScriptedServer([DONE]) as server:
        goal_place.url = server.openai_url
        done = goal_place.run("run", *flags)
        asked = json.dumps(server.requests[0].json["messages"])
    values = [line["value"] for line in done.lines if line["type"] == "notice"]
    assert {"type": "goal_check", "passed": True} in values
    assert words.PASSES_BEFORE in asked


def test_the_end_of_a_long_check_is_kept_in_order(goal_place: Place) -> None:
    noisy = "echo begun >&2; seq 100000; echo warning >&2; echo failed: add; exit 1\n"
    (goal_place.project / "tests" / "check.sh").write_text(noisy)
    goal = pursue(goal_place, [DONE]).json["goal"]
    assert goal["attempts"][0]["output"].endswith("\n100000\nwarning\nfailed: add")


def test_a_check_that_does_not_end_shows_its_output(goal_place: Place) -> None:
    (goal_place.project / "tests" / "check.sh").write_text("echo waiting for the port; sleep 99\n")
    goal = pursue(goal_place, [DONE], "--timeout", "12").json["goal"]
    first = goal["attempts"][0]
    assert (first["exit_status"], first["output"]) == (None, "waiting for the port")
    assert first["fault"].startswith("did not end within")


def test_a_stop_says_what_resumes_the_goal(goal_place: Place) -> None:
    (goal_place.project / "tests" / "check.sh").write_text("sleep 99\n")
    with ScriptedServer([DONE]) as server:
        goal_place.url = server.openai_url
        flags = ("--permission-mode", "auto-edit", "--output-format", "stream-json")
        with goal_place.start("run", "--goal", "g", "--verify", VERIFY, *flags) as running:
            assert running.stdout is not None
            lines = []
            for line in running.stdout:
                lines.append(json.loads(line))
                if lines[-1].get("what", "").startswith("Checking"):
                    running.send_signal(signal.SIGINT)
    said = [line["text"] for line in lines if line["type"] == "notice"]
    assert any("`kode continue` resumes it" in text for text in said)
    assert lines[-1]["goal"]["status"] == "unfinished"


def test_the_names_in_a_shown_goal_stay_as_they_are(goal_place: Place) -> None:
    (goal_place.project / "__init__.py").write_text("")
    with ScriptedServer([DONE], repeat_last=True) as server:
        goal_place.url = server.openai_url
        goal = f"/goal g --verify {VERIFY} __init__.py"
        goal_place.run("run", goal, "--permission-mode", "auto-edit")
        shown = goal_place.run("continue", "/goal").out
    assert shown.startswith("```\nGoal: g\n")
    assert f"Check: {VERIFY} __init__.py" in shown


def test_the_limit_of_requests_is_of_the_whole_goal(goal_place: Place) -> None:
    done = pursue(goal_place, [READ], "--max-steps", "4")
    goal = done.json["goal"]
    assert (done.code, goal["status"]) == (1, "out_of_budget")
    assert goal["spent"]["requests"] == 4


def test_a_goal_killed_while_its_check_runs_repeats_nothing(goal_place: Place) -> None:
    (goal_place.project / "tests" / "check.sh").write_text(f"sleep 2\n{CHECK}")
    with ScriptedServer([READ, FIX, DONE]) as server:
        goal_place.url = server.openai_url
        flags = ("--permission-mode", "auto-edit", "--output-format", "stream-json")
        with goal_place.start("run", "--goal", "g", "--verify", VERIFY, *flags) as running:
            assert running.stdout is not None
            for line in running.stdout:
                if json.loads(line).get("what", "").startswith("Checking"):
                    break
            running.kill()
    done = resume(goal_place, [DONE])
    assert (done.json["goal"]["status"], done.code) == ("reached", 0)
    assert (goal_place.folder / "asked").read_text() == "0"
    assert len(done.json["goal"]["attempts"]) == 1


def test_a_limit_counts_what_came_before_a_kill(goal_place: Place) -> None:
    with ScriptedServer([READ, DONE, {"delay_s": 60, "text": ""}]) as server:
        goal_place.url = server.openai_url
        flags = ("--permission-mode", "auto-edit", "--output-format", "stream-json")
        limits = ("--max-steps", "3")
        with goal_place.start("run", "--goal", "g", "--verify", VERIFY, *flags, *limits) as running:
            assert running.stdout is not None
            for line in running.stdout:
                if ((json.loads(line).get("value")) or {}).get("type") == "goal_attempt":
                    break
            running.kill()
    goal = resume(goal_place, [READ]).json["goal"]
    assert (goal["status"], goal["spent"]["requests"]) == ("out_of_budget", 3)
    assert [one["attempt"] for one in goal["attempts"]] == [1, 2]


def test_programs_hear_of_each_attempt(goal_place: Place) -> None:
    done = pursue(goal_place, [DONE, READ, FIX, DONE], "--output-format", "stream-json")
    values = [line["value"] for line in done.lines if line["type"] == "notice" and line["value"]]
    assert [one["type"] for one in values] == ["goal_attempt", "goal_attempt", "goal"]
    assert [one["passed"] for one in values[:2]] == [False, True]


@pytest.mark.parametrize("flag", ["--verify", "--protect"])
def test_flags_of_a_goal_need_one(goal_place: Place, flag: str) -> None:
    assert goal_place.run("run", "task", flag, "x").code == 3


def test_a_goal_needs_a_check(goal_place: Place) -> None:
    done = goal_place.run("run", "--goal", "add adds")
    assert done.code == 3
    assert "--verify CMD" in done.err
    assert goal_place.session_files == []
