"""Goals of the installed kode: the exit status of a command decides, whatever the model does."""

import json
import signal
from dataclasses import fields

import pytest

from kode.plugins.goals.goal import PASSES_BEFORE, GoalAttempt
from tests.e2e.command import Place, needs_a_whole_sandbox
from tests.needs import skip_without
from tests.scripted_server import ScriptedServer

WRONG = "def add(a, b):\n    return a - b\n"
CHECK = "grep -q 'a + b' calc.py\n"
VERIFY = "sh tests/check.sh"
DONE = {"text": "All of it is done, and the check passes."}


def call(name, **arguments):
    return {"calls": [{"name": name, "arguments": arguments}]}


READ = call("read_file", path="calc.py")
FIX = call("edit_file", path="calc.py", old_text="a - b", new_text="a + b")


@pytest.fixture
def goal_place(tmp_path):
    place = Place(tmp_path)
    needs_a_whole_sandbox(place)
    (place.project / "tests").mkdir()
    (place.project / "tests" / "check.sh").write_text(CHECK)
    (place.project / "calc.py").write_text(WRONG)
    return place


def pursue(place, script, *flags, verify=VERIFY):
    with ScriptedServer(script, repeat_last=True) as server:
        place.url = server.openai_url
        mode = () if "--permission-mode" in flags else ("--permission-mode", "auto-edit")
        return place.run(
            *("run", "--goal", "add adds", "--verify", verify, "--output-format", "json"),
            *(*mode, *flags),
        )


def cut(place, script, until, *flags, by=signal.SIGKILL):
    """Pursues a goal, and sends a signal once a line has the words `until`; returns all lines."""
    lines = []
    with ScriptedServer(script) as server:
        place.url = server.openai_url
        mode = ("--permission-mode", "auto-edit", "--output-format", "stream-json")
        with place.start("run", "--goal", "g", "--verify", VERIFY, *mode, *flags) as running:
            for line in running.stdout:
                lines.append(json.loads(line))
                if until in line:
                    running.send_signal(by)
    return lines


def test_a_goal_is_reached_by_its_check_alone(goal_place):
    done = pursue(goal_place, [DONE, READ, FIX, DONE], "--output-format", "stream-json")
    result, values = done.lines[-1], [line["value"] for line in done.lines if line.get("value")]
    goal = result["goal"]
    assert (done.code, result["status"], goal["status"]) == (0, "success", "reached")
    ends = [(one["passed"], one["exit_status"]) for one in goal["attempts"]]
    assert ends == [(False, 1), (True, 0)]
    assert goal["attempts"][1]["files"] == ["calc.py"]
    assert result["checked"] == "passed"
    assert [one["type"] for one in values] == ["goal_attempt", "goal_attempt", "goal"]
    assert {field.name for field in fields(GoalAttempt)} == set(values[0])
    assert goal == values[-1]


EDIT_1, EDIT_2 = (call("write_file", path="calc.py", content=f"x = {n}\n") for n in (1, 2))
COME_AND_GO = [READ, DONE, *[EDIT_1, DONE, EDIT_2, DONE] * 5]


@pytest.mark.parametrize("script", [[READ], COME_AND_GO], ids=["circles", "edits that come and go"])
def test_a_goal_that_gets_nowhere_stalls(goal_place, script):
    done = pursue(goal_place, script)
    goal = done.json["goal"]
    assert (done.code, done.json["status"], goal["status"]) == (1, "incomplete", "stalled")
    assert 3 <= len(goal["attempts"]) < 8


def test_a_goal_whose_model_cannot_be_asked_stays_unfinished(goal_place):
    refused = {"error": {"status": 400, "text": "no"}}
    done = pursue(goal_place, [READ, refused])
    assert (done.code, done.json["goal"]["status"]) == (1, "unfinished")
    assert done.json["goal"]["attempts"] == []


EDITS = {
    "a file tool": call("write_file", path="tests/check.sh", content="exit 0\n"),
    "a command": call("shell", command="echo 'exit 0' > tests/check.sh"),
    "a deletion": call("shell", command="rm -r tests; mkdir tests; echo > tests/check.sh"),
    "a move": call("shell", command="mv tests old; cp -r old tests; echo > tests/check.sh"),
    "a new conftest": call("write_file", path="conftest.py", content="import os; os._exit(0)\n"),
    "a new conftest by a command": call("shell", command="echo 'import x' > conftest.py"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_protected_files_stay_as_they_were(goal_place, edit):
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
def made_place(goal_place):
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


def test_scripts_and_modules_of_the_check_are_protected(made_place):
    names = ["tests/unittest.py", "difflib.py"]
    edits = [
        call("write_file", path="scripts/check.sh", content=READS_ALL),
        call("shell", command=f"printf '{READS_ALL!r}' > scripts/check.sh"),
        *(call("write_file", path=name, content=PASSES) for name in names),
    ]
    goal = pursue(made_place, [*edits, DONE], verify="make test").json["goal"]
    first = goal["attempts"][0]
    assert (goal["status"], {*first["restored"]}) == ("stalled", {*names})
    assert first["exit_status"] != 0
    assert (made_place.project / "scripts" / "check.sh").read_text() == SCRIPT


def test_a_product_may_change(made_place):
    edits = [
        call("write_file", path="scripts/product.py", content="print('changed')\n"),
        call("write_file", path="helper.py", content="def add(a, b):\n    return a + b\n"),
        READ,
        call("write_file", path="calc.py", content="from helper import add\n"),
    ]
    goal = pursue(made_place, [*edits, DONE], verify="make test").json["goal"]
    assert (goal["status"], goal["attempts"][0]["restored"]) == ("reached", [])


def test_a_pass_that_skips_a_protected_file_does_not_count(goal_place):
    tests = goal_place.project / "tests"
    (tests / "first.py").write_text("import json\nimport calc\n")
    (tests / "second.py").write_text("import calc\nassert calc.add(1, 2) == 3\n")
    check = "PYTHONPATH=. python3 -c 'exec(open(\"tests/first.py\").read()); import tests.second'"
    cheat = call("write_file", path="calc.py", content=PASSES)
    goal = pursue(goal_place, [READ, cheat, DONE], verify=check).json["goal"]
    assert goal["status"] == "stalled"
    assert goal["attempts"][0]["exit_status"] == 0
    assert goal["attempts"][0]["unread"] == ["tests/second.py"]


def test_a_protected_file_changed_outside_the_sandbox_is_put_back(goal_place):
    write = "open('tests/check.sh', 'w').write('exit 0\\n'); open('conftest.py', 'w')"
    cheat = call("shell", command=f'python3 -c "{write}"')
    done = pursue(goal_place, [cheat, DONE], "--permission-mode", "full")
    goal = done.json["goal"]
    assert goal["status"] == "stalled"
    assert goal["attempts"][0]["restored"] == ["tests/check.sh", "conftest.py"]
    assert (goal_place.project / "tests" / "check.sh").read_text() == CHECK
    assert not (goal_place.project / "conftest.py").exists()
    copies = [path.read_text() for path in goal_place.home.glob("sessions/*/goals/*")]
    assert "exit 0\n" in copies


def test_a_check_that_passes_before_any_change_is_reported(goal_place):
    flags = ("--goal", "add adds", "--verify", "true", "--output-format", "stream-json")
    with ScriptedServer([DONE]) as server:
        goal_place.url = server.openai_url
        done = goal_place.run("run", *flags)
        asked = json.dumps(server.requests[0].json["messages"])
    assert PASSES_BEFORE in [line.get("text") for line in done.lines]
    assert PASSES_BEFORE in asked


def test_a_pipe_fails_and_its_end_is_kept_in_order(goal_place):
    noisy = "echo begun >&2; seq 100000; echo warning >&2; echo failed: add\n"
    (goal_place.project / "tests" / "check.sh").write_text(noisy)
    attempts = pursue(goal_place, [DONE], verify=f"false | {VERIFY}").json["goal"]["attempts"]
    assert [one["exit_status"] for one in attempts] == [1, 1, 1]
    assert attempts[0]["output"].endswith("\n100000\nwarning\nfailed: add")


def test_a_stop_says_what_resumes_the_goal(goal_place):
    (goal_place.project / "tests" / "check.sh").write_text("[ -e x ] && sleep 99; exit 1\n")
    script = [call("write_file", path="x", content=""), DONE]
    lines = cut(goal_place, script, "Checking", by=signal.SIGINT)
    texts = [line["text"] for line in lines if line["type"] == "notice"]
    assert any("`kode continue`" in text for text in texts)
    assert lines[-1]["goal"]["status"] == "unfinished"


def test_the_names_in_a_shown_goal_stay_as_they_are(goal_place):
    (goal_place.project / "__init__.py").write_text("")
    with ScriptedServer([DONE], repeat_last=True) as server:
        goal_place.url = server.openai_url
        goal = f"/goal g --verify {VERIFY} __init__.py"
        goal_place.run("run", goal, "--permission-mode", "auto-edit")
        shown = goal_place.run("continue", "/goal").out
    assert shown.startswith("```\nGoal: g\n")
    assert f"Check: {VERIFY} __init__.py" in shown


def test_flags_of_a_goal_need_each_other(goal_place):
    for flag in ("--verify", "--goal"):
        assert goal_place.run("run", "task", flag, "x").code == 3
    assert goal_place.session_files == []


# Each limit of a goal ends it with what was tried.

DOLLAR = {"usage": {"input_tokens": 1000, "output_tokens": 0}}
HANGS = {"delay_s": 60, "text": ""}


def ends_out_of_budget(done, flag):
    """Asserts that the result says which limit ended the goal; returns the goal."""
    goal = done.json["goal"]
    assert (done.code, done.json["status"], goal["status"]) == (1, "incomplete", "out_of_budget")
    assert flag in done.json["error"]
    return goal


def tried(goal):
    """The number of each attempt, whether it passed, and its requests."""
    return [(one["attempt"], one["passed"], one["requests"]) for one in goal["attempts"]]


def test_money_ends_a_goal_with_its_attempts(goal_place):
    goal_place.home.mkdir(mode=0o700, exist_ok=True)
    prices = {"gpt-4.1": {"input": 1000, "output": 0}}
    (goal_place.home / "config.json").write_text(json.dumps({"prices": prices}))
    replies = [READ | DOLLAR, DONE | DOLLAR, READ | DOLLAR]
    done = pursue(goal_place, replies, "--max-budget-usd", "3.5")
    goal = ends_out_of_budget(done, "--max-budget-usd")
    assert tried(goal) == [(1, False, 2), (2, False, 2)]
    assert [one["cost_usd"] for one in goal["attempts"]] == [2.0, 2.0]
    assert (goal["spent"]["usd"], goal["limits"]) == (4.0, {"usd": 3.5})


def test_requests_end_a_goal_with_its_attempts(goal_place):
    done = pursue(goal_place, [READ, DONE, READ], "--max-steps", "5")
    goal = ends_out_of_budget(done, "--max-steps")
    assert tried(goal) == [(1, False, 2), (2, False, 3)]
    assert (goal["spent"]["requests"], goal["limits"]) == (5, {"requests": 5})


@pytest.mark.slow
def test_time_ends_a_goal_while_the_model_is_silent(goal_place):
    done = pursue(goal_place, [HANGS], "--timeout", "10")
    goal = ends_out_of_budget(done, "--timeout")
    assert tried(goal) == [(1, False, 0)]
    assert goal["spent"]["seconds"] >= 10


@pytest.mark.slow
def test_time_ends_a_goal_while_its_check_runs(goal_place):
    (goal_place.project / "tests" / "check.sh").write_text("echo waiting; sleep 600\n")
    goal = ends_out_of_budget(pursue(goal_place, [DONE], "--timeout", "10"), "--timeout")
    (attempt,) = goal["attempts"]
    assert (attempt["exit_status"], attempt["passed"]) == (None, False)
    assert attempt["output"] == "waiting"
    assert attempt["fault"].startswith("did not end")


def test_limits_of_a_goal_count_what_came_before_a_kill(goal_place):
    cut(goal_place, [READ, DONE, HANGS], "goal_attempt", "--timeout", "600")
    with ScriptedServer([READ], repeat_last=True) as server:
        goal_place.url = server.openai_url
        done = goal_place.run("continue", "--output-format", "json", "--timeout", "0.1")
    goal = ends_out_of_budget(done, "--timeout")
    assert tried(goal) == [(1, False, 2)]
    assert goal["spent"]["requests"] >= 2
