import asyncio
import threading

import pytest

from kode.contracts import Drop, Injection
from kode.memory.base import NullMemory
from kode.memory.guarded import Guarded
from tests.memory.life import memory_context, notices, turn

HOOKS = ("open", "inject", "recall", "after_turn", "before_drop", "maintain", "search", "snapshot")


class Failing(NullMemory):
    """Every hook does `what` and counts its calls; `opens`: all but `open`."""

    name = "failing"

    def __init__(self, what, *, opens=True):
        self.what = what
        self.opens = opens
        self.calls = {}

    async def _hook(self, hook):
        self.calls[hook] = self.calls.get(hook, 0) + 1
        await self.what()

    async def open(self, context, state):
        if not self.opens:
            await self._hook("open")

    async def inject(self, reason):
        await self._hook("inject")

    async def recall(self, turn):
        await self._hook("recall")

    async def after_turn(self, turn):
        await self._hook("after_turn")

    async def before_drop(self, messages, reason):
        await self._hook("before_drop")

    async def maintain(self):
        await self._hook("maintain")

    async def search(self, query, k):
        await self._hook("search")

    async def snapshot(self):
        await self._hook("snapshot")

    async def close(self, grace_s):
        await self._hook("close")

    def tools(self):
        raise RuntimeError("no tools")

    def state(self):
        raise RuntimeError("no state")


async def broken():
    raise RuntimeError("broken")


async def sleeping():
    await asyncio.Event().wait()


async def live(memory, tmp_path, events, turns=10):
    """A session as the loop lives it; returns the answers of the hooks."""
    await memory.open(memory_context(tmp_path, emit=events.append), {"kept": 1})
    answers = [await memory.inject("start"), memory.tools()]
    for number in range(1, turns + 1):
        answers.append(await memory.recall(turn(number)))
        await memory.after_turn(turn(number))
        answers.append(memory.state())
    answers.append(await memory.before_drop([], "exit"))
    await memory.close(1.0)
    return answers


async def test_a_system_whose_hooks_raise_costs_one_notice_a_hook(tmp_path):
    events = []
    inside = Failing(broken)

    answers = await live(Guarded(inside), tmp_path, events)

    assert answers[0] == Injection(known=False)
    assert answers[1] == ()
    assert set(map(str, answers[2:-1])) == {"", "{'kept': 1}"}
    assert answers[-1] == Drop(done=False)
    texts = notices(events)
    assert len(texts) == len(set(texts)) == 7
    assert all("failing" in text for text in texts)
    assert inside.calls["recall"] == inside.calls["after_turn"] == 3


async def test_a_system_that_failed_to_open_gets_no_further_calls(tmp_path):
    events = []
    inside = Failing(broken, opens=False)

    answers = await live(Guarded(inside), tmp_path, events)

    assert inside.calls == {"open": 1}
    assert answers[-1] == Drop(done=False)
    assert len(notices(events)) == 1


async def test_a_system_whose_hooks_hang_is_cut_off_at_limits(tmp_path):
    events = []
    threads = threading.active_count()
    memory = Guarded(Failing(sleeping), limits_s=dict.fromkeys((*HOOKS, "close"), 0.01))

    answers = await live(memory, tmp_path, events)

    assert answers[0] == Injection(known=False)
    assert any("longer than 0.01 s" in text for text in notices(events))
    assert threading.active_count() == threads
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt])
async def test_cancellation_passes_through(tmp_path, error):
    async def cancelled():
        raise error

    memory = Guarded(Failing(cancelled))

    with pytest.raises(error):
        await memory.before_drop([], "reset")


async def test_a_caller_cancelled_during_a_hook_is_cancelled(tmp_path):
    begun = asyncio.Event()

    async def hanging():
        begun.set()
        await sleeping()

    memory = Guarded(Failing(hanging))
    task = asyncio.create_task(memory.before_drop([], "reset"))
    await begun.wait()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_hook_that_works_again_in_time_is_called_on(tmp_path):
    outcomes = [True, True, False, True, True, False]

    async def sometimes():
        if outcomes.pop(0):
            raise RuntimeError("broken")

    inside = Failing(sometimes)
    memory = Guarded(inside)

    for number in range(6):
        await memory.recall(turn(number))

    assert inside.calls["recall"] == 6


async def test_a_slow_hook_that_somebody_awaits_is_announced(monkeypatch):
    monkeypatch.setattr("kode.memory.guarded.SLOW_S", 0.0)
    events = []
    told = asyncio.Event()

    def emit(event):
        events.append(event)
        told.set()

    memory = Guarded(Failing(told.wait))
    memory._emit = emit
    await memory.before_drop([], "reset")
    await memory.search("x", 1)

    assert [event.what for event in events] == ["Saving memory", ""]


async def test_a_quick_hook_is_not_told_of(monkeypatch):
    monkeypatch.setattr("kode.memory.guarded.SLOW_S", 3_600.0)
    events = []

    async def quick():
        pass

    memory = Guarded(Failing(quick))
    memory._emit = events.append
    await memory.before_drop([], "reset")

    assert events == []
