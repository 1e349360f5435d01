"""What a person picks from a list: a session (`/resume`, `kode -r`), a prompt to go back to
(`/rewind`), and decisions about waiting memory entries (`/memory review`)."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import clip, one_line
from kode.cli.screen.menu import Choice, Menu, matching
from kode.cli.screen.screen import Screen
from kode.errors import KodeError
from kode.messages import first_of, plural
from kode.plain_text import clean

if TYPE_CHECKING:
    from kode.memory.contract import MemorySystem
    from kode.memory.review import Item
    from kode.memory.statement import Outcome
    from kode.session.index import Summary


LISTED_SESSIONS = 20  # one screen, where a list cannot be narrowed
PICKED_FROM = 200  # the menu filters as one types; each row is read from disk
MAX_PREVIEWED_BYTES = 4_000_000
"""For a larger session only the first task is shown: reading it would block the keys."""


async def choose(screen: Screen, title: str, choices: Sequence[Choice], **more: Any) -> str:
    """The value that the person picks: from a menu, which they narrow by typing, or from a list by
    its number; "" for none. Without a menu any other line counts as a value. `more` are other
    fields of the menu."""
    menu = Menu(
        choices,
        find=partial(matching, choices),
        above=lambda width: ["", screen.paint("title", clip(title, width))],
        hint="type to search · Enter chooses · Esc cancels",
        **more,
    )
    label = "search: " if screen.editor is not None else f"{title} (Enter cancels): "
    return (await screen.read_answer(label, menu) or "").strip()


async def resume(state: PromptState, argument: str) -> None:
    """Opens a session by an id prefix, its number in the list, or from a menu."""
    place = state.conversation.place
    session_id = await pick_session(state.screen, place.home, place.cwd, argument)
    if session_id is None:
        return
    if session_id == state.conversation.session.id:
        state.screen.print("You are already in that session.", "dim")
        return
    await state.conversation.switch_session(session_id)
    state.show_resumed()


async def pick_session(screen: Screen, home: Path, cwd: Path, name: str = "") -> str | None:
    """The id of the session that the person picks, or of the one with this number in the list, or
    with an id that begins so; None if they pick none. Raises: SessionError, StorageError."""
    from kode.cli.screen.session_table import when
    from kode.session.index import find, list_sessions

    if len(name) > 2 or (name and not name.isdecimal()):
        return find(home, name)
    limit = LISTED_SESSIONS if screen.editor is None else PICKED_FROM
    summaries = list_sessions(home, cwd=cwd, limit=3 * limit)
    # A subagent's session belongs to the one that started it.
    rows = [row for row in summaries if not row.parent and not row.damaged and row.turns][:limit]
    if not rows:
        screen.print("There is no session to resume here.", "dim")
        return None
    by_id = {row.id: row for row in rows}
    choices = [Choice(row.id, f"{when(row.updated_at):<16}  {one_line(row.task)}") for row in rows]

    @cache
    def preview(choice: Choice) -> list[str]:
        summary = by_id[choice.value]
        facts = f"{summary.id} · {plural(summary.turns, 'turn')} · {summary.model}"
        return [facts, *_last_exchange(home, summary)]

    if not name:
        name = await choose(screen, "Resume a session", choices, preview=preview)
    return find(home, Menu(choices).meant(name)) if name else None


def _last_exchange(home: Path, session: "Summary") -> list[str]:
    """The last prompt and the beginning of its answer."""
    from kode.messages import text_of
    from kode.session.index import read, session_path
    from kode.session.messages import visible_messages

    if session.size_bytes > MAX_PREVIEWED_BYTES:
        return []
    try:
        _, entries, _ = read(session_path(home, session.id))
    except KodeError:
        return ["It cannot be read: `kode session check` has details."]
    lines: list[str] = []
    for message in reversed(visible_messages(entries)):
        if message.role == "assistant" and text_of(message).strip() and not lines:
            lines = [one_line(line) for line in text_of(message).splitlines() if line.strip()][:4]
        if message.role == "user":
            return [f"> {one_line(text_of(message))}", *lines]
    return lines


BOTH, CONVERSATION, FILES = "both", "conversation", "files"
MAX_NAMED = 5
"""Changed files; of more, how many."""


async def rewind(state: PromptState, argument: str) -> None:
    """Picks a prompt (`/rewind NUMBER` names it) and what to rewind; `/rewind undo` restores the
    conversation."""
    conversation = state.conversation
    if argument == "undo":
        if conversation.undo_rewind():
            state.show_resumed()
        else:
            state.screen.print("Nothing was rewound since your last message.", "dim")
        return
    prompts = conversation.prompts()
    if not prompts:
        state.screen.print("There is no prompt to rewind to yet.", "dim")
        return
    about = [_about(files) for files in await asyncio.to_thread(conversation.would_undo)]
    number = argument or await _pick(state, prompts, about)
    if not number:
        return
    if not number.isdecimal() or not 0 < int(number) <= len(prompts):
        state.screen.print(f"/rewind takes a number from 1 to {len(prompts)}.", "warning")
        return
    turn = int(number)
    what = await _ask_what(state, prompts[turn - 1], about[turn - 1])
    if what is None:
        return
    lines = await conversation.rewind(turn, files=what != CONVERSATION, messages=what != FILES)
    for line in lines:
        state.screen.print(line)
    if what != FILES and state.editor is not None:
        state.editor.put_back(prompts[turn - 1])


def _about(files: list[str]) -> str:
    """The files that a rewind would change, in a few words."""
    if not files:
        return "no files changed since"
    return "changed since: " + ", ".join(first_of(list(map(one_line, files)), MAX_NAMED))


async def _pick(state: PromptState, prompts: list[str], about: list[str]) -> str:
    choices = [Choice(str(turn), one_line(text), str(turn)) for turn, text in enumerate(prompts, 1)]
    preview = {choice.value: [line] for choice, line in zip(choices, about, strict=True)}
    return await choose(
        state.screen, "Rewind to", choices[::-1], preview=lambda choice: preview[choice.value]
    )


async def _ask_what(state: PromptState, prompt: str, about: str) -> str | None:
    """What to rewind; None for nothing."""
    menu = Menu(
        [
            Choice(BOTH, "files and conversation", "b"),
            Choice(CONVERSATION, "conversation only", "c"),
            Choice(FILES, "files only", "f"),
        ],
        above=lambda width: [
            "",
            state.screen.paint("title", clip(f"> {one_line(prompt)}", width)),
            state.screen.paint("dim", clip(about, width)),
        ],
        hint="Enter chooses · Esc cancels",
    )
    if state.screen.editor is None:
        state.screen.print(about, "dim")
    chosen = await state.screen.read_answer("rewind: ", menu)
    return chosen if chosen in (BOTH, CONVERSATION, FILES) else None


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
        choice = await _decide_on(screen, item, len(waiting), can_undo=bool(decided))
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


async def _decide_on(screen: Screen, item: "Item | None", count: int, *, can_undo: bool) -> str:
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
