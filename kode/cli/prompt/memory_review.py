"""Reviews waiting memory entries one by one, each decided by one key: `/memory review` and `kode
memory review`. Leaving decides nothing."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kode.cli.screen.menu import Choice, Menu
from kode.cli.screen.screen import Screen
from kode.errors import KodeError
from kode.messages import plural
from kode.plain_text import clean

if TYPE_CHECKING:
    from kode.memory.contract import MemorySystem
    from kode.memory.review import Item
    from kode.memory.statement import Outcome

KEYS: Mapping[str, str] = {
    "approve": "a",
    "drop": "d",
    "first": "1",
    "second": "2",
    "both": "b",
    "confirm": "t",
    "remove": "r",
}
"""Choice → its key."""
_BESIDES: Mapping[str, tuple[str, str]] = {
    "skip": ("s", "skip"),
    "why": ("w", "show its source"),
    "undo": ("u", "undo the last decision"),
    "quit": ("q", "quit"),
}


async def review_memory(screen: Screen, memory: "MemorySystem") -> None:
    """Goes through all waiting entries, until each is decided, skipped or left. Raises:
    KodeError."""
    from kode.memory.commands import run_line
    from kode.memory.review import decide, items

    decided: list[tuple[Item, Outcome]] = []
    passed: set[str] = set()
    while True:
        waiting = [entry for entry in await items(memory) if entry.id not in passed]
        item = waiting[0] if waiting else None
        if item is None and not decided:
            break
        choice = await _choose(screen, item, len(waiting), can_undo=bool(decided))
        try:
            if choice == "undo":
                undone, done = decided.pop()
                passed.discard(undone.id)
                change = done.change.id if done.change else ""
                reverted = await run_line(memory, ["undo", change])
                screen.print(clean(reverted.text), "dim")
            elif choice == "quit" or item is None:
                break
            elif choice == "skip":
                passed.add(item.id)
            elif choice == "why":
                for statement in item.statements:
                    history = await run_line(memory, ["why", statement.id])
                    screen.print(clean(history.text))
            else:
                done = await decide(memory, item.id, choice)
                screen.print(clean(done.text), "dim")
                passed.add(item.id)
                if done.change:
                    decided.append((item, done))
        except KodeError as error:
            screen.print(clean(str(error)), "warning")
            if item is not None:
                passed.add(item.id)
    left = len(await items(memory))
    nothing = "" if decided or left else "Nothing is pending."
    screen.print(nothing or f"{plural(len(decided), 'decision')}; {left} still pending.", "dim")


async def _choose(screen: Screen, item: "Item | None", count: int, *, can_undo: bool) -> str:
    """The person's choice, one of the item's or of `_BESIDES`; without an item the last decision
    can still be undone."""
    choices = [
        Choice(name, text, KEYS[name]) for name, text in (item.choices if item else {}).items()
    ]
    for name, (key, text) in _BESIDES.items():
        if can_undo if name == "undo" else (item or name == "quit"):
            choices.append(Choice(name, text, key))
    idle = "skip" if item else "quit"
    screen.print("")
    screen.print(
        f"{item.heading} ({count} waiting)" if item else "Nothing else is pending.", "title"
    )
    texts = item.texts if item else ()
    for number, text in enumerate(texts, 1):
        screen.print(clean(f"{number}  {text}" if len(texts) > 1 else text))
    values = [choice.value for choice in choices]
    answer = await screen.read_answer("decide: ", Menu(choices, selected=values.index(idle)))
    if answer is None:
        return "quit"
    return answer if answer in values else idle  # other typed text decides nothing
