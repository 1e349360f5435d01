"""The parent against children that behave, and against those that do not."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kode.config.model import Subagent
from kode.engine.agent import Spend
from kode.errors import ToolError
from kode.events import AgentFinished, AgentProgress
from kode.memory.contract import NullMemory, SnapshotSection
from kode.permissions.question import Answer, Question
from kode.subagents import parent, records
from kode.subagents.parent import child_environment
from kode.subagents.task import TaskArgument
from kode.tools import processes
from tests.subagents.conftest import Family, until

AN_AGE_S = 1_000.0


class Clocks:
    """The time that children's clocks count; it passes only when a test says so."""

    def __init__(self) -> None:
        self.now_s = time.monotonic()
        self.reads = 0

    def monotonic(self) -> float:
        self.reads += 1
        return self.now_s

    async def pass_by(self, is_time: Callable[[], bool] = lambda: True) -> None:
        """Lets an age pass, once it is time, and waits until it was counted."""
        await until(is_time)
        self.now_s += AN_AGE_S
        counted = self.reads + 2
        await until(lambda: self.reads >= counted)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    clocks = Clocks()
    monkeypatch.setattr("kode.subagents.task.time", clocks)
    return clocks


async def test_max_concurrency_limits_children_and_results_keep_their_order(family: Family) -> None:
    code = """
open("log", "a").write(f"+ {time.monotonic()}\\n")
wait_for(lambda: open("log").read().count("+") >= 3)
wait_for(lambda: task()["goal"] != "0" or open("log").read().count("- ") >= 7)
open("log", "a").write(f"- {time.monotonic()}\\n")
result(task()["goal"])
"""
    children = await family.run(code, [str(n) for n in range(8)])

    assert [child.result.summary for child in children] == list("01234567")
    lines = [line.split() for line in (family.folder / "log").read_text().splitlines()]
    running = most = 0
    for sign, _ in sorted(lines, key=lambda pair: float(pair[1])):
        running += 1 if sign == "+" else -1
        most = max(most, running)
    assert most == 3


async def test_the_same_snapshot_of_memory_reaches_every_child(family: Family) -> None:
    class Memory(NullMemory):
        async def snapshot(self) -> tuple[SnapshotSection, ...]:
            return (SnapshotSection(title="User Profile", content="likes tea"),)

    code = "result(json.loads(sys.stdin.readline())['memory'])"
    children = await family.run(code, ["a", "b"], memory=Memory())

    (summary,) = {child.result.summary for child in children}
    assert "likes tea" in summary


@pytest.mark.parametrize(
    ("code", "status", "says"),
    [
        ("pass", "error", "exit status 0 and without a result"),
        ("sys.stderr.write('no disk'); sys.exit(3)", "error", "no disk"),
        ("print('x' * 10_000_000); result()", "success", ""),
        ("os.write(1, b'\\xff\\xfe{\\n\\x00\\n'); result()", "success", ""),
        ("print('[' * 100_000); print('[]'); print('{}'); print('null'); result()", "success", ""),
        ("say(type='replied'); say(type='used', steps='x'); result()", "success", ""),
        ("say(type='result', status='splendid'); sys.exit(1)", "error", "without a result"),
        ("os.close(1); os.close(2); hang()", "error", "without a result"),
        ("result(); hang()", "success", ""),
    ],
)  # fmt: skip
@pytest.mark.slow
async def test_any_output_of_a_child_ends_in_a_clear_result(
    family: Family, monkeypatch: pytest.MonkeyPatch, code: str, status: str, says: str
) -> None:
    monkeypatch.setattr(parent, "EXIT_GRACE_S", 0.3)
    result = await family.result(code)

    assert result.status == status
    assert says in (result.error or "")


async def test_a_silent_child_is_ended_after_its_time(family: Family) -> None:
    result = await family.result("hang()", limits=Subagent(timeout_s=0.3))

    assert result.status == "timeout"


IGNORES = """
import subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "600"], start_new_session=True)
"""
REPORTS = """
def end(*_): result("half of it", "interrupted", "Interrupted."); sys.exit(130)
signal.signal(signal.SIGTERM, end)
"""


@pytest.mark.parametrize(("code", "summary"), [(IGNORES, ""), (REPORTS, "half of it")])
@pytest.mark.slow
async def test_a_child_over_its_time_is_asked_then_killed(
    family: Family, clocks: Clocks, monkeypatch: pytest.MonkeyPatch, code: str, summary: str
) -> None:
    monkeypatch.setattr(parent, "EXIT_GRACE_S", 5.0 if summary else 0.2)
    monkeypatch.setattr(processes, "GRACE_S", 0.2)
    ready = family.folder / "ready"
    passing = asyncio.create_task(clocks.pass_by(ready.exists))
    result = await family.result(f"{code}\nopen('ready', 'w')\nhang()")
    passing.cancel()

    assert (result.status, result.summary) == ("timeout", summary)


async def test_cancelling_ends_all_children_and_gives_each_a_result(family: Family) -> None:
    code = """
import subprocess
subprocess.Popen(["sleep", "600"], start_new_session=True)
open("begun", "a").write("x")
hang()
"""
    running = asyncio.create_task(family.run(code, ["a", "b", "c"], free=asyncio.Semaphore(2)))
    begun = family.folder / "begun"
    await until(lambda: begun.exists() and len(begun.read_text()) == 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    ended = records.read_records(family.folder / "agents")
    assert [record.status for record in ended] == ["interrupted"] * 3
    assert not [record for record in ended if record.is_alive]


ASKS = """
sys.stdin.readline()
say(type="call", id=7, question=QUESTION)
while (line := json.loads(sys.stdin.readline()))["type"] != "reply": pass
result(f"{line['id']} {line['answer']['choice']}")
"""


async def test_a_question_reaches_the_person_and_names_the_asker(family: Family) -> None:
    questions: list[tuple[str, str]] = []

    async def ask(question: Question) -> Answer:
        questions.append((question.subject, question.asker))
        return Answer(choice="session")

    result = await family.result(ASKS, "build it", ask=ask)

    assert result.summary == "7 session"
    assert questions == [("make", "subagent 1: build it")]
    assert (await family.result(ASKS)).summary == "7 no"  # nobody is there


@pytest.mark.slow
async def test_the_time_a_person_takes_does_not_count(family: Family, clocks: Clocks) -> None:
    async def ask(question: Question) -> Answer:
        await clocks.pass_by()
        return Answer(choice="once")

    assert (await family.result(ASKS, ask=ask)).status == "success"


async def test_stopping_withdraws_an_open_question(family: Family) -> None:
    shown, withdrawn = asyncio.Event(), asyncio.Event()

    async def ask(question: Question) -> Answer:
        shown.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            withdrawn.set()

    code = "sys.stdin.readline(); say(type='call', id=1, question=QUESTION); hang()"
    running = asyncio.create_task(family.run(code, ask=ask))
    await shown.wait()
    running.cancel()
    await withdrawn.wait()

    assert not running.done()  # the child is still being ended, and nobody is asked any more
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_one_childs_use_is_counted_and_told_to_others(family: Family) -> None:
    code = """
if task()["goal"] == "spends":
    say(type="used", usage=dict(input_tokens=100, output_tokens=10), cost_usd=0.5, steps=2)
    wait_for(lambda: os.path.exists("heard"))
    result()
else:
    while (line := json.loads(sys.stdin.readline())).get("cost_usd") != 0.75: pass
    open("heard", "w")
    result(json.dumps(line))
"""
    spend = Spend(cost_usd=0.25, steps=1)
    _, other = await family.run(code, ["spends", "listens"], spend=spend)

    assert other.result.summary == '{"type": "rest_of_tree", "cost_usd": 0.75, "steps": 3}'
    assert (spend.cost_usd, spend.steps, spend.usage.input_tokens) == (0.75, 3, 100)
    assert [used.input_tokens for used in family.used] == [100]


async def test_a_childs_time_ends_before_its_parents_turn(family: Family) -> None:
    started = time.monotonic()
    code = "result(str(json.loads(sys.stdin.readline())['ends_at']))"
    result = await family.result(code, spend=Spend(turn_ends_at=started + 10))

    assert 7 < float(result.summary) - started < 9


async def test_a_child_that_waits_for_the_model_is_not_ended(
    family: Family, clocks: Clocks
) -> None:
    code = """
say(type="step_started", step=1)
wait_for(lambda: os.path.exists("replied"))
result("slow, but whole")
"""

    async def reply() -> None:
        await clocks.pass_by(family.asks_the_model)
        (family.folder / "replied").touch()

    replying = asyncio.create_task(reply())
    result = await family.result(code)
    await replying

    assert result.status == "success"


async def test_an_ended_child_goes_on_under_its_id(family: Family) -> None:
    code = """
open(os.path.join(os.path.dirname(argument("--task")), "transcript.jsonl"), "a").write("{}\\n")
result(task()["goal"], status="error", error="Ended by a limit.", steps=3)
"""
    (first,) = await family.run(code, ["find it"])

    (second,) = await family.go_on([TaskArgument(goal="go on", resume=first.id)], "call_2")

    assert (second.id, second.result.summary) == (first.id, "go on")
    agents = records.read_records(family.folder / "agents")
    assert [record.id for record in agents] == [first.id]
    with pytest.raises(ToolError, match=first.id):
        await family.go_on([TaskArgument(goal="go on", resume="../other")])


async def test_no_command_line_file_or_environment_holds_the_key(family: Family) -> None:
    key = "sk-very-secret-value"
    environ = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": key, "ODD": f"x{key}", "GH_TOKEN": "t"}
    environment = child_environment(environ, (key,), passed_on=("GH_TOKEN",))
    code = """
start = json.loads(sys.stdin.readline())
result(json.dumps([dict(os.environ), sys.argv, start["config"]["api_key"]]))
"""
    (child,) = await family.run(code, environment=environment)

    summary = child.result.summary
    assert key not in summary
    assert '"k"]' in summary
    assert "GH_TOKEN" in summary
    assert not [p for p in child.folder.iterdir() if key.encode() in Path(p).read_bytes()]


async def test_a_command_that_cannot_be_started_is_an_error(family: Family) -> None:
    result = await family.result("", command=("/nowhere/python",))

    assert result.status == "error"
    assert "not be started" in (result.error or "")


async def test_the_activity_and_the_result_of_a_child_are_known(family: Family) -> None:
    code = """
def reply(text): say(type="replied", message=dict(parts=[dict(type="text", text=text)]))
say(type="tool_started", name="shell", subject="make test")
reply("half of it")
say(type="tool_finished", diff=task()["goal"].strip("reads"), is_error=False)
reply("\\udc80")
result("found it", steps=2)
"""
    child, reader = await family.run(code, ["+1", "reads"])

    ends = [event.status for event in family.events if isinstance(event, AgentFinished)]
    assert ends == [child.result.status, reader.result.status] == ["success"] * 2
    assert records.read_records(family.folder / "agents")[0].result == child.result
    assert (child.result.summary, child.result.steps) == ("found it", 2)
    seen = [event.activity for event in family.events if isinstance(event, AgentProgress)]
    assert "shell make test" in seen
    assert (child.last_text, child.untrusted) == ("half of it", "")
    assert (child.has_edited, reader.has_edited) == (True, False)
