"""Nothing is lost: consolidations by many processes, and by processes that are killed anywhere: at
steps spread over a consolidation, with `make test-all` at each.
"""

import asyncio
import os
import re
import traceback

import pytest

from kode.errors import ProviderError
from kode.memory.base import reconcile
from kode.memory.history import History
from tests.effort import EVERYTHING
from tests.memory.journal.life import (
    answer,
    history_of,
    memory_of,
    messages,
    opened,
    put_memory,
    waiting,
)
from tests.memory.life import OTHER_SESSION
from tests.memory.replies import Replies

SAMPLE = 20
STEPS = ("open", "write", "fsync", "rename", "unlink", "ftruncate", "mkdir")
FACTS = "- likes tabs\n- works in Berlin"


def in_a_child(work):
    """Forks, runs `work`; the exit code of the child."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(7)
    os._exit(0)


def killed_at(step):
    """From now on this process dies before or after its `step`-th change to the disk. Returns how
    many there were so far."""
    reached = 0

    def dying(name, real):
        def call(*arguments, **options):
            nonlocal reached
            if name == "open" and not arguments[1] & (os.O_CREAT | os.O_WRONLY):
                return real(*arguments, **options)
            reached += 1
            if reached == step:
                os._exit(9)
            if name == "write" and len(arguments[1]) > 1:
                # A part of a write may be there, too.
                half = real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                reached += 1
                if reached == step:
                    os._exit(9)
                return half
            outcome = real(*arguments, **options)
            reached += 1
            if reached == step:
                os._exit(9)
            return outcome

        return call

    for name in STEPS:
        setattr(os, name, dying(name, getattr(os, name)))
    return lambda: reached


def steps_of(folder, facts=None, reply=None):
    """The steps of a consolidation to be killed at."""
    asyncio.run(consolidate(folder / "first"))  # what is written once in a home
    root = folder / "count"
    if facts is not None:
        put_memory(root, facts)

    def count():
        reached = killed_at(0)
        asyncio.run(consolidate(root, reply or sums_up))
        (folder / "steps").write_text(str(reached()))

    assert in_a_child(count) == 0
    every = range(1, int((folder / "steps").read_text()) + 1)
    assert len(every) > 40
    if EVERYTHING:
        return every
    return [every[round(i * (len(every) - 1) / (SAMPLE - 1))] for i in range(SAMPLE)]


def every_number(text):
    return {int(found) for found in re.findall(r"message (\d+)\.", text)}


def sums_up(request):
    """A model that names every message it was given, and remembers one more fact."""
    numbers = every_number(request.messages[0].parts[0].text)
    named = " ".join(f"message {number}." for number in sorted(numbers))
    return answer(f"Did {named}", "consolidated once")


async def consolidate(root, reply=sums_up):
    system = await opened(root, ask_reply=Replies([reply]))
    await system.before_drop(messages(12), "exit")


async def maintained(root):
    other = await opened(root, ask_reply=Replies([sums_up]), session_id=OTHER_SESSION)
    await reconcile(other)  # as whenever memory is opened
    await other.maintain()


async def next_start(root):
    """What any later start of kode does, and then the same session again, without its state."""
    await maintained(root)
    again = await opened(root, ask_reply=Replies([sums_up]))
    await reconcile(again)
    await again.before_drop(messages(12), "exit")


@pytest.mark.timeout(1200 if EVERYTHING else 120)
@pytest.mark.parametrize(
    ("reply", "entries"),
    [(sums_up, 1), (ProviderError("down"), 2)],
    ids=["an answer", "no answer"],
)
@pytest.mark.slow
def test_killed_at_any_step_every_message_is_kept_once(tmp_path, reply, entries):
    for step in steps_of(tmp_path, FACTS, reply):
        root = tmp_path / str(step)
        put_memory(root, FACTS)
        code = in_a_child(lambda r=root, s=step: (killed_at(s), asyncio.run(consolidate(r, reply))))

        assert code == 9
        in_queue = "".join(path.read_text() for path in waiting(root))
        written = "".join(entry.text for entry in history_of(root))
        put_down = bool(in_queue or written)
        if put_down:
            assert every_number(in_queue + written) == set(range(12))
        assert memory_of(root).strip() in (FACTS, f"{FACTS}\n- consolidated once")

        asyncio.run(next_start(root))

        found = [entry.text for entry in history_of(root)]
        whole = [text for text in found if text.startswith("Did ")]
        assert len(whole) == 1
        assert every_number(whole[0]) == set(range(12))
        assert len(found) <= entries
        assert [entry.text for entry in history_of(root, "HISTORY-2026-03.md")] == found
        assert memory_of(root) == f"{FACTS}\n- consolidated once"
        assert waiting(root) == []
        ids = [change.id for change in History(root / "memory" / "history.jsonl").tail(99).changes]
        assert len(ids) == len(set(ids))


def test_a_consolidation_that_was_decided_is_finished_without_asking_again(tmp_path):
    for step in steps_of(tmp_path):
        root = tmp_path / str(step)
        in_a_child(lambda r=root, s=step: (killed_at(s), asyncio.run(consolidate(r))))
        decided = [path for path in waiting(root) if '"answer": "{' in path.read_text()]
        if decided:
            break

    model = Replies([sums_up])
    asyncio.run(_open_only(root, model))

    assert len(history_of(root)) == 1
    assert memory_of(root) == "- consolidated once"
    assert model.requests == []
    assert waiting(root) == []


async def _open_only(root, model):
    await opened(root, ask_reply=model, session_id=OTHER_SESSION)


async def consolidate_one(root, number):
    def adds(request):
        return answer(f"Did {number}.", f"fact {number}")

    session = f"2026030{number}-123400-abcdef"
    system = await opened(root, ask_reply=Replies([adds]), session_id=session)
    await system.before_drop(messages(2, first=10 * number), "exit")


def test_many_processes_at_once_leave_every_fact_and_every_entry(tmp_path):
    children = []
    for number in range(1, 7):
        child = os.fork()
        if child == 0:
            try:
                asyncio.run(consolidate_one(tmp_path, number))
            except BaseException:
                traceback.print_exc()
                os._exit(7)
            os._exit(0)
        children.append(child)

    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

    assert codes == [0] * 6
    facts = sorted(memory_of(tmp_path).split())
    assert facts == sorted(" ".join(f"- fact {n}" for n in range(1, 7)).split())
    assert sorted(e.text for e in history_of(tmp_path)) == [f"Did {n}." for n in range(1, 7)]


def test_a_kill_while_the_model_works_holds_up_nobody(tmp_path):
    async def dies(request):
        os._exit(9)

    async def dying():
        system = await opened(tmp_path, ask_reply=dies)
        await system.before_drop(messages(4), "exit")

    code = in_a_child(lambda: asyncio.run(dying()))
    asyncio.run(maintained(tmp_path))

    assert code == 9
    (entry,) = history_of(tmp_path)
    assert every_number(entry.text) == {0, 1, 2, 3}
    assert waiting(tmp_path) == []
