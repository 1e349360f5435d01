"""Facts written by many processes at once, and by processes that are killed in between."""

import asyncio
import json
import os
import traceback

import pytest

from kode.memory import review
from kode.memory.base import reconcile
from kode.memory.history import History
from kode.memory.tiered.facts import parse
from tests.memory.life import (
    OTHER_SESSION,
    SESSION,
    Model,
    lived,
    opened,
    settings,
    turn,
    use,
    user_file,
    write_facts,
)

pytestmark = pytest.mark.sampled(of=3)

FACTS = [
    "Prefers tabs over spaces",
    "Lives in Lisbon",
    "Reviews pull requests on Mondays",
    "Writes commit messages in English",
    "Dislikes ORMs",
    "Has a Framework laptop",
    "Deploys with Ansible",
    "Keeps a changelog by hand",
    "Uses fish as the shell",
    "Wants short answers",
    "Maintains the billing service",
    "Speaks Portuguese and German",
    "Is colour-blind: no red and green",
    "Tests on Firefox first",
    "Works from 7 to 15",
    "Avoids abbreviations in names",
]

UPDATE = json.dumps(
    {"narrative": "Looked.", "facts": [], "lines": [{"line": 2, "how": "changes", "of": 1}]}
)
NEAR = ("Lint with ruff check", "Lint with ruff check src")


def killed(work, root, at):
    """The exit code of a forked child that dies before or after its `at`-th call to the system
    while it does `work(root)`; 0 when it came to the end first."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    reached = 0

    def dying(real):
        def call(*arguments, **options):
            nonlocal reached
            reached += 1
            if reached == at:
                os._exit(9)
            outcome = real(*arguments, **options)
            reached += 1
            if reached == at:
                os._exit(9)
            return outcome

        return call

    try:
        for name in ("open", "write", "fsync", "rename", "fchmod", "close", "ftruncate"):
            setattr(os, name, dying(getattr(os, name)))
        asyncio.run(work(root))
    except BaseException:
        os._exit(7)
    os._exit(0)


async def hearing(root, **changes):
    """A session in which the person just said what is to replace the old one."""
    system = await opened(root, **changes)
    await system.recall(turn(1, "take the new one"))
    return system


async def add_one(root, text):
    await use(await opened(root), action="add", target="user", content=text)


async def replace_one(root):
    await use(
        await hearing(root),
        action="replace",
        target="user",
        old_text="the old",
        content="the new one",
    )


async def add_near(root):
    await add_one(root, NEAR[1])


async def end_session(root):
    model = Model([UPDATE])
    await (await opened(root, model=model)).before_drop(lived("look around"), "exit")


def all_at_once(root, *jobs):
    """Forks a process for each list of calls, lets them go together; returns their exit codes."""
    waiting, go = os.pipe()
    children = [forked(waiting, go, root, calls) for calls in jobs]
    os.close(go)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    os.close(waiting)
    return codes


def forked(waiting, go, root, calls):
    child = os.fork()
    if child:
        return child
    try:
        os.close(go)
        os.read(waiting, 1)  # ends when the last process holding the other end closes it
        asyncio.run(make(root, calls))
    except BaseException:
        traceback.print_exc()
        os._exit(7)
    os._exit(0)


async def make(root, calls):
    system = await hearing(root, config=settings(facts_limit_user=50_000))
    for call in calls:
        await use(system, target="user", **call)


@pytest.mark.slow
def test_sixteen_processes_adding_sixteen_facts_leave_sixteen(tmp_path):
    codes = all_at_once(tmp_path, *([{"action": "add", "content": fact}] for fact in FACTS))

    assert codes == [0] * 16
    assert sorted(parse(user_file(tmp_path).read_text())) == sorted(FACTS)
    assert len(History(tmp_path / "memory" / "history.jsonl").tail(100).changes) == 16


async def test_many_sessions_of_one_process_lose_nothing_either(tmp_path):
    config = settings(facts_limit_user=50_000, merge_on_write=False)
    systems = [await opened(tmp_path, config=config) for _ in range(16)]

    await asyncio.gather(
        *(
            use(system, action="add", target="user", content=f"{fact} {number}")
            for number in range(4)
            for system, fact in zip(systems, FACTS, strict=True)
        )
    )

    assert len(parse(user_file(tmp_path).read_text())) == 64


def test_processes_that_add_the_same_fact_leave_it_once(tmp_path):
    codes = all_at_once(tmp_path, *([{"action": "add", "content": FACTS[0]}] for _ in range(8)))

    assert codes == [0] * 8
    assert parse(user_file(tmp_path).read_text()) == (FACTS[0],)


def test_a_replacement_and_an_addition_both_take_effect(tmp_path):
    write_facts(user_file(tmp_path), "the old one")
    replace = {"action": "replace", "old_text": "the old one", "content": "the new one"}
    adds = [{"action": "add", "content": fact} for fact in FACTS[:8]]

    codes = all_at_once(tmp_path, [replace], adds)

    assert codes == [0, 0]
    entries = parse(user_file(tmp_path).read_text())
    assert sorted(entries) == sorted(["the new one", *FACTS[:8]])


@pytest.mark.slow
def test_a_write_killed_anywhere_leaves_the_old_or_new_file(tmp_path):
    outcomes = []
    for at in range(1, 160):
        root = tmp_path / str(at)
        write_facts(user_file(root), "first", "the old one", "last")
        code = killed(replace_one, root, at)
        entries = parse(user_file(root).read_text())
        outcomes.append((code, entries[1]))
        assert entries in (("first", "the old one", "last"), ("first", "the new one", "last"))
        asyncio.run(add_one(root, "after the crash"))
        assert parse(user_file(root).read_text()) == (*entries, "after the crash")
        if code == 0:
            break

    codes = [code for code, _ in outcomes]
    assert codes == [9] * (len(codes) - 1) + [0]
    assert {entry for _, entry in outcomes} == {"the old one", "the new one"}


def pairs(root):
    return asyncio.run(pairs_of(root))


async def pairs_of(root):
    system = await opened(root)
    await reconcile(system)
    return [(pair.first.text, pair.second.text) for pair in review.pairs(system)]


@pytest.mark.slow
def test_an_add_killed_anywhere_leaves_no_unpaired_near_fact(tmp_path):
    stood = set()
    for at in range(1, 160):
        root = tmp_path / str(at)
        write_facts(user_file(root), NEAR[0])
        code = killed(add_near, root, at)
        entries = parse(user_file(root).read_text())
        assert entries in (NEAR[:1], NEAR)
        assert NEAR[1] not in entries or pairs(root) == [NEAR]
        stood.add(entries)
        if code == 0:
            break

    assert code == 0
    assert stood == {NEAR[:1], NEAR}


@pytest.mark.slow
def test_settling_killed_anywhere_keeps_both_texts_in_file_or_history(tmp_path):
    for at in range(1, 160):
        root = tmp_path / str(at)
        asyncio.run(add_one(root, NEAR[0]))
        asyncio.run(add_near(root))
        code = killed(end_session, root, at)
        entries = parse(user_file(root).read_text())
        assert entries in (NEAR, NEAR[1:])
        if entries == NEAR[1:]:
            changes = History(root / "memory" / "history.jsonl").tail(9).changes
            assert [c.before for c in changes if c.kind == "supersede"] == [NEAR]
        else:
            assert pairs(root) == [NEAR]
        asyncio.run(end_session(root))
        assert parse(user_file(root).read_text()) == NEAR[1:]
        assert pairs(root) == []
        if code == 0:
            break

    assert code == 0


LEARNT = json.dumps(
    {
        "narrative": "Talked.",
        "facts": [{"fact": "Deployed with Ansible", "words": "deploy with Ansible"}],
        "lines": [],
    }
)


async def learn(root):
    system = await opened(root, model=Model([LEARNT]))
    await system.after_turn(turn(3, "deploy with Ansible from now on"))
    await system.before_drop(lived("a", "b", "c"), "exit")


async def next_start(root):
    later = await opened(root, model=Model([LEARNT]), session_id=OTHER_SESSION)
    await reconcile(later)
    await later.maintain()
    return later


@pytest.mark.slow
def test_learning_killed_anywhere_is_finished_at_the_next_start(tmp_path):
    ends = []
    for at in (*range(1, 60, 2), *range(60, 400, 5)):
        root = tmp_path / str(at)
        code = killed(learn, root, at)
        begun = list((root / "memory" / "episodes").glob("**/*.[jm][sd]*"))
        later = asyncio.run(next_start(root))
        facts = [entry.text for entry in later.facts()]
        if begun or code == 0:
            assert facts == ["Deployed with Ansible"]
            assert [path.name for path in (root / "memory" / "episodes").glob("2*.md")] == [
                f"{SESSION}.md"
            ]
            kinds = [change.kind for change in later.history.standing("tiered")]
            assert sorted(kinds) == ["add", "episode"]
        assert list((root / "memory" / "episodes" / "pending").glob("*.json")) == []
        ends.append(code)
        if code == 0:
            break

    assert ends == [9] * (len(ends) - 1) + [0]
