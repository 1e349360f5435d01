"""`/resume`: opens another session of the folder."""

from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING

from kode.cli.prompt.pick import own_sessions, pick_session
from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import clip, one_line
from kode.cli.screen.menu import Choice, Menu, matching
from kode.messages import plural

if TYPE_CHECKING:
    from kode.session.index import Summary

PICKED_FROM = 200  # the menu filters as one types; each row is read from disk
MAX_PREVIEWED_BYTES = 4_000_000
"""For a larger session only the first task is shown: reading it would block the keys."""


async def resume(state: PromptState, argument: str) -> None:
    """Opens a session by an id prefix, its number in the list, or from a menu."""
    from kode.session.index import find

    home, cwd = state.conversation.place.home, state.conversation.place.cwd
    if not argument and state.screen.editor is not None:
        session_id = await _choose(state)
    elif not argument or (len(argument) <= 2 and argument.isdecimal()):
        session_id = await pick_session(state.screen, home, cwd, argument)
    else:
        session_id = find(home, argument)
    if session_id is None:
        return
    if session_id == state.conversation.session.id:
        state.screen.print("You are already in that session.", "dim")
        return
    await state.conversation.resume(session_id)
    state.show_resumed()


async def _choose(state: PromptState) -> str | None:
    summaries = own_sessions(
        state.conversation.place.home, state.conversation.place.cwd, PICKED_FROM
    )
    if not summaries:
        state.screen.print("There is no session to resume here.", "dim")
        return None
    return await state.screen.read_answer("search: ", _menu(state, summaries)) or None


def _menu(state: PromptState, sessions: "list[Summary]") -> Menu:
    from kode.cli.screen.session_table import when

    today = datetime.now().astimezone().date()
    by_id = {session.id: session for session in sessions}
    used = {
        id: when(session.updated_at or session.created_at, today) for id, session in by_id.items()
    }
    choices = [
        Choice(session.id, f"{used[session.id]:<16}  {one_line(session.task)}")
        for session in sessions
    ]

    @cache
    def preview(choice: Choice) -> list[str]:
        summary = by_id[choice.value]
        facts = f"{summary.id} · {plural(summary.turns, 'turn')} · {summary.model}"
        return [facts, *_last_exchange(state, summary)]

    return Menu(
        choices,
        find=partial(matching, choices),
        preview=preview,
        above=lambda width: ["", state.screen.paint("title", clip("Resume a session", width))],
        hint="type to search · Enter opens · Esc cancels",
    )


def _last_exchange(state: PromptState, session: "Summary") -> list[str]:
    """The last prompt and the beginning of its answer."""
    from kode.errors import KodeError
    from kode.messages import text_of
    from kode.session.messages import visible_messages
    from kode.session.reading import read, session_path

    if session.size_bytes > MAX_PREVIEWED_BYTES:
        return []
    try:
        _, entries, _ = read(session_path(state.conversation.place.home, session.id))
    except KodeError:
        return ["It cannot be read: `kode session check` has details."]
    lines: list[str] = []
    for message in reversed(visible_messages(entries)):
        if message.role == "assistant" and text_of(message).strip() and not lines:
            lines = [one_line(line) for line in text_of(message).splitlines() if line.strip()][:4]
        if message.role == "user":
            return [f"> {one_line(text_of(message))}", *lines]
    return lines
