"""Every operation on memory, in every system: what it leaves, its undo, and the undo of that."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from kode.memory.commands import run_line
from kode.memory.rendering import strip_bullet
from kode.memory.review import decide_item, list_waiting, propose_fact
from kode.memory.statement import Statement
from kode.memory.system import Memory
from tests.memory.sessions import Sessions
from tests.memory.systems import TARGETS

ALPHA, BETA, GAMMA = "alpha lies in the cellar", "beta is built with make", "gamma has port 7100"


async def _add(memory: Memory) -> None:
    await run_line(memory, ["add", TARGETS[memory.name], GAMMA])


async def _replace(memory: Memory) -> None:
    await run_line(memory, ["edit", BETA, GAMMA])


async def _forget(memory: Memory) -> None:
    await run_line(memory, ["forget", BETA])


async def _contradict(memory: Memory) -> None:
    """The model says otherwise than the person."""
    old = memory.store.find(BETA)
    await memory.save(memory.store.new_version(old, GAMMA, memory.author()), old=old)


async def _settle(memory: Memory) -> None:
    await _contradict(memory)
    await _decide(memory, "second")


async def _keep_both(memory: Memory) -> None:
    await _contradict(memory)
    await _decide(memory, "both")


async def _propose(memory: Memory) -> None:
    await propose_fact(memory, GAMMA, "user", "another agent")


async def _approve(memory: Memory) -> None:
    await _propose(memory)
    await _decide(memory, "approve")


async def _drop(memory: Memory) -> None:
    await _propose(memory)
    await _decide(memory, "drop")


async def _undo(memory: Memory) -> None:
    await _add(memory)
    await run_line(memory, ["undo"])


async def _edit_by_hand(memory: Memory) -> None:
    place = memory.store.find(BETA).place
    path = memory.store.root / place
    path.write_text(path.read_text().replace(BETA, GAMMA))
    await memory.store.reconcile()


async def _decide(memory: Memory, choice: str) -> None:
    [item] = await list_waiting(memory)
    await decide_item(memory, item.id, choice)


class Row(NamedTuple):
    do: Callable[[Memory], Awaitable[None]]
    current: set[str]
    """Which of the texts count then, besides ALPHA."""
    waits: bool = False
    """Whether something waits for the person then."""
    has_file: bool = False
    """Whether it needs a file, which notes have not."""


OPERATIONS = {
    "add": Row(_add, {BETA, GAMMA}),
    "replace": Row(_replace, {GAMMA}),
    "forget": Row(_forget, set()),
    "contradict": Row(_contradict, {BETA, GAMMA}, waits=True),
    "settle": Row(_settle, {GAMMA}),
    "keep both": Row(_keep_both, {BETA, GAMMA}),
    "propose": Row(_propose, {BETA}, waits=True),
    "approve": Row(_approve, {BETA, GAMMA}),
    "drop": Row(_drop, {BETA}),
    "undo": Row(_undo, {BETA}),
    "hand edit": Row(_edit_by_hand, {GAMMA}, has_file=True),
}


def _values(statement: Statement) -> Statement:
    return replace(statement, replaces=())


async def _state(memory: Memory) -> object:
    view = memory.store.view()
    current = {strip_bullet(old.text) for old in memory.store.statements()}
    files = "".join(memory.store.read_text(place) or "" for place in memory.store.fact_places())
    if memory.name != "notes":
        texts = {ALPHA, BETA, GAMMA}
        assert {text for text in texts if text in files} == current
    return sorted(map(_values, view.statements()), key=lambda old: old.id), await list_waiting(
        memory
    )


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_operation_holds_and_is_undone_and_redone(
    name: str, operation: str, tmp_path: Path
) -> None:
    row, home = OPERATIONS[operation], Sessions(tmp_path, system=name)
    if row.has_file and name == "notes":
        return
    memory = await home.open(None)
    for text in (ALPHA, BETA):
        await run_line(memory, ["add", TARGETS[name], text])
    await row.do(memory)
    after = await _state(memory)
    texts = {strip_bullet(old.text) for old in memory.store.statements()}
    assert texts == {ALPHA} | row.current
    assert bool(await list_waiting(memory)) is row.waits

    last = memory.store.log.changes()[-1]
    for expected in (None, after):
        undone = await run_line(memory, ["undo", last.id])
        assert undone.change
        last = undone.change
        if expected is not None:
            assert await _state(memory) == expected
        else:
            assert await _state(memory) != after
    again = await home.open(None)
    assert await _state(again) == after
