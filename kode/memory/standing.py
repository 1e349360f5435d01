"""Brings memory's files and their history together: when memory is opened, and on request
(`kode memory rebuild`).

What a killed kode began is finished or marked as never made; what differs otherwise is a person's
edit of the file, recorded as such, so that it is undone like any change.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from kode import durable
from kode.credentials import redact
from kode.errors import MemoryRefused
from kode.memory.change import REBUILD, Author, Change, nothing_left, refuse_redacted, undo_of
from kode.memory.history import History
from kode.memory.lineage import Entry
from kode.memory.places import Places, State
from kode.memory.stored import locked
from kode.messages import plural, shorten

MOST_SAID = 3
"""Edits by hand that are reported one by one."""
QUOTED_CHARS = 60
WAIT_S = 2.0
"""How long memory's opening waits for another kode that writes."""


async def reconcile(history: History, *, read_only: bool) -> list[str]:
    """Compares the places of a memory with its history; returns what a person should know, a
    sentence each. With `read_only` nothing is written. Raises: StorageError, BusyError."""
    said = []
    if damage := history.damage(mend=not read_only):
        said.append(
            f"{history.path} was changed outside of kode: {damage}. What is remembered stays as it "
            "is; only the changes that are gone cannot be undone. If you have a copy of the file, "
            "put it back."
        )
    if not read_only:
        said += await _conclude(history)
        said += await _compare(history)
    return said


async def rebuild(history: History) -> str:
    """Puts back what the history has and the files or the database do not, in every place of the
    system; what they have beyond it stays. One change each, undone like any other. Raises:
    MemoryRefused, StorageError, BusyError."""
    places = _places(history)
    lines = []
    for target in history.changed_places():
        if places.is_rebuilt(target):
            async with locked(places.lock(target)):
                lines += _rebuild_one(history, places, target)
    return "\n".join(lines) or "Everything that the history has is there."


async def add(history: History, name: str, text: str, author: Author) -> Change | None:
    """Adds a text to the place that a person calls `name`; None if it is there. Raises:
    MemoryRefused, StorageError, BusyError."""
    places = _places(history)
    target, text = places.placed(name, text, datetime.now().astimezone())
    return await rewrite(
        history, target, lambda state: places.grown(target, state, text), author, "add"
    )


async def rewrite(
    history: History,
    target: str,
    edit: Callable[[State], State],
    author: Author,
    kind: str,
    **values: Any,
) -> Change | None:
    """Makes of a place what `edit` makes of its state, as one change, of which `values` are further
    fields; None if nothing differs. Raises: MemoryRefused, StorageError, BusyError."""
    places = _places(history)
    async with locked(places.lock(target)):
        state = places.read(target)
        after = edit(state)
        fields = places.apart(target, state, after)
        if not fields:
            return None
        places.check(target, state, after)
        change = Change.by(author, places.system, kind, target, **fields, **values)
        with history.making(change, after):
            places.put(target, after)
    return change


async def undo(history: History, change: Change, author: Author) -> Change:
    """Takes a change back, and none of what came after. Raises: NothingToUndo, MemoryRefused,
    StorageError, BusyError."""
    places = _places(history)
    target = places.now_at(change.target)
    refuse_redacted(change, f"Edit {places.root / target} by hand.")
    async with locked(places.lock(target)):
        before, made = places.sides(change)
        if before == made:  # it was a confirmation
            return history.append(undo_of(change, author))
        state = places.read(target)
        after = places.reverted(target, state, change)
        if after == state:
            parts = zip(change.after, made, strict=True) if places.is_of_entries(target) else ()
            lost = next((text for text, stood in parts if stood not in state), "")
            quoted = f'"{shorten(redact(lost), QUOTED_CHARS)}"'
            lacks = f"{places.called(target)} no longer holds {quoted}." if lost else ""
            raise nothing_left(change, lacks)
        places.check(target, state, after)
        fields: dict[str, Any] = {"before": state, "after": after}
        if places.is_of_entries(target):
            gone = tuple(text for text in state if text not in after)
            fields = places.fields(gone, tuple(text for text in after if text not in state))
            differ = (at for at, text in enumerate(state) if after[at : at + 1] != (text,))
            fields["position"] = next(differ, len(state))
        undoing = undo_of(change, author, target=target, **fields)
        with history.making(undoing, after):
            places.put(target, after)
    return undoing


async def confirm(history: History, entry: Entry, author: Author) -> Change:
    """Records that an entry holds, and rests on what its author cites. Raises: MemoryRefused,
    StorageError, BusyError."""
    places = _places(history)
    async with locked(places.lock(entry.target)):
        state = places.read(entry.target)
        same = _texts_with(places, entry, state)
        fields = places.fields(same, same)
        change = Change.by(author, places.system, "confirm", entry.target, **fields)
        with history.making(change, state):
            pass
    return change


async def remove(history: History, entry: Entry, author: Author, reason: str = "") -> Change:
    """Removes an entry from its place. Raises as `confirm`."""
    places = _places(history)
    async with locked(places.lock(entry.target)):
        state = places.read(entry.target)
        _texts_with(places, entry, state)
        after = places.without(entry.target, state, entry.key)
        fields = places.apart(entry.target, state, after)
        change = Change.by(author, places.system, "remove", entry.target, reason=reason, **fields)
        with history.making(change, after):
            places.put(entry.target, after)
    return change


async def settle(
    history: History, sides: tuple[Entry, Entry], kept: Sequence[Entry], author: Author
) -> Change:
    """Keeps of two entries that stand side by side in a place of entries what the person chose.
    Raises as `confirm`."""
    places, target = _places(history), sides[0].target
    gone = next((one for one in sides if one not in kept), None)
    async with locked(places.lock(target)):
        state = places.read(target)
        texts = {one.key: _texts_with(places, one, state)[0] for one in sides}
        after = places.without(target, state, gone.key) if gone else state
        fields = places.fields(tuple(texts.values()), tuple(texts[one.key] for one in kept))
        at = after.index(texts[kept[0].key])
        change = Change.by(author, places.system, "settle", target, position=at, **fields)
        with history.making(change, after):
            places.put(target, after)
    return change


def _places(history: History) -> Places:
    if history.places is None:
        raise MemoryRefused("The history of this memory does not follow where its entries stand.")
    return history.places


def _texts_with(places: Places, entry: Entry, state: State) -> State:
    """The text of an entry as it stands. Raises: MemoryRefused if it is gone."""
    for text in state:
        if any(one.key == entry.key for one in places.entries_of(entry.target, (text,))):
            return (text,) if places.is_of_entries(entry.target) else (entry.key,)
    raise MemoryRefused(
        f'{places.called(entry.target)} no longer holds "{shorten(entry.text, QUOTED_CHARS)}". '
        "Nothing was changed."
    )


async def _conclude(history: History) -> list[str]:
    places = history.places
    said = []
    for id in history.unfinished():
        change = next(iter(history.find(id)), None)
        if places is None or (change is not None and not places.tracks(change.target)):
            continue  # another system's
        if change is None:
            history.forget_unwritten(id)
            continue
        async with locked(places.lock(change.target), timeout_s=WAIT_S):
            if id in history.unfinished() and not history.conclude(change):
                said.append(
                    f"A change of memory was never made, because kode was stopped before: "
                    f"{_quoted(change)} ({change.kind} {id}). Make it again if you still want it."
                )
    return said


async def _compare(history: History) -> list[str]:
    """Records what was edited by hand in the places of this project."""
    places = history.places
    said: list[str] = []
    if places is None:
        return said
    for target, stands in history.standing_places().items():
        edit = None
        try:
            if not places.is_here(target) or not places.differs(target, stands):
                continue
            async with locked(places.lock(target), timeout_s=WAIT_S):
                state = places.read(target)  # another kode may have been at work
                edit = history.take_hand_edit(target, state)
                if places.differs(target, history.stands(target)):
                    said.append(
                        f"The {places.system} memory lacks its last changes, as after a copy or a "
                        "crash. `kode memory rebuild` puts back what the history has."
                    )
        except MemoryRefused as error:
            said.append(f"{error} Or `kode memory rebuild` makes it again from the history.")
            continue
        if edit is not None:
            said.append(
                f"{target} was edited outside of kode: {_quoted(edit)}. "
                f"Undo with: kode memory undo {edit.id}"
            )
    if more := len(said[MOST_SAID:]):
        said[MOST_SAID:] = [
            f"{plural(more, 'more place')} of memory differ from the history: "
            "`kode memory log` lists the edits."
        ]
    return said


def _rebuild_one(history: History, places: Places, target: str) -> list[str]:
    try:
        state = places.read(target)
    except MemoryRefused:
        durable.set_aside(places.root / target)
        state = ()
    has, masked = history.replayed(target)
    after = places.united(target, state, has)
    fields = places.apart(target, state, after)
    if not fields:
        return []
    change = Change.by(
        Author(who="user"), places.system, REBUILD, target, redacted=masked, **fields
    )
    with history.making(change, after, as_is=True) as written:
        places.put(target, after)
    kept = " (a credential in it stays masked)" if masked else ""
    return [f"rebuilt {target}{kept}. Undo with: kode memory undo {written.id}"]


def _quoted(change: Change) -> str:
    """What a change takes away and adds, in a few words."""
    gone, new = change.differences
    parts = [
        f'{word} "{shorten(texts[0], QUOTED_CHARS)}"'
        + (f" and {plural(len(texts) - 1, 'other')}" if texts[1:] else "")
        for word, texts in (("removed", gone), ("added", new))
        if texts
    ]
    return ", ".join(parts) or change.reason or change.kind
