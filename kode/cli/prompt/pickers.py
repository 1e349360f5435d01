"""Commands that let a person pick from a list: a session (`/resume`, `kode -r`), a prompt to rewind
to (`/rewind`), a model and its effort, a theme."""

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kode.cli.parser import suggest
from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import clip, count, format_when, one_line
from kode.cli.screen.menu import Choice, Menu
from kode.cli.screen.screen import Screen
from kode.errors import UserError
from kode.messages import cut_list, plural
from kode.provider import EFFORTS

if TYPE_CHECKING:
    from kode.conversation import Conversation


LISTED_SESSIONS = 20  # one screen, where a list cannot be narrowed
PICKED_FROM = 200  # the menu filters as one types; each row is read from disk


async def pick_value(screen: Screen, title: str, choices: Sequence[Choice], **more: Any) -> str:
    """Returns the value that the person picks from a menu, which typing narrows, or by its number
    from a list; "" for none. Without a menu any other line counts as a value. `more` are other
    fields of the menu."""
    keys = "↑↓, a number" if choices[0].key else "↑↓"
    menu = Menu(
        choices,
        is_searchable=True,
        above=lambda width: ["", screen.paint("bold", clip(title, width))],
        hint=f"{keys} or type to search · Enter chooses · Esc cancels",
        **more,
    )
    label = "search: " if screen.editor is not None else f"{title} (Enter cancels): "
    return (await screen.read_answer(label, menu) or "").strip()


def mark_current(values: Sequence[str], current: str) -> tuple[list[Choice], int]:
    """Returns a choice for each value, and the index of the current one (0 if it is not listed)."""
    choices = [Choice(it, f"{it}  (now)" if it == current else it) for it in values]
    return choices, values.index(current) if current in values else 0


async def resume(state: PromptState, argument: str) -> None:
    """Opens a session by its name, an id prefix, its number in the list, or from a menu. Raises:
    SessionError, StorageError."""
    from kode.session.index import find_session, list_sessions

    screen, place, name = state.screen, state.conversation.place, argument
    if len(name) <= 2 and (not name or name.isdecimal()):
        limit = LISTED_SESSIONS if screen.editor is None else PICKED_FROM
        summaries = list_sessions(place.home, cwd=place.cwd, limit=3 * limit)
        # A subagent's session belongs to the one that started it.
        rows = [it for it in summaries if not it.parent and not it.damaged and it.turns][:limit]
        if not rows:
            return screen.print("There is no session to resume here.", "dim")
        facts = {row.id: f"{row.id} · {plural(row.turns, 'turn')} · {row.model}" for row in rows}
        choices = [
            Choice(it.id, f"{format_when(it.updated_at):<16}  {one_line(it.title)}") for it in rows
        ]
        name = name or await pick_value(
            screen, "Resume a session", choices, preview=lambda choice: [facts[choice.value]]
        )
        name = Menu(choices).value_of(name)
    if not name:
        return
    session_id = find_session(place.home, name)
    if session_id == state.conversation.session.id:
        screen.print("You are already in that session.", "dim")
    else:
        await state.conversation.switch_session(session_id)
        state.show_resumed()


_WHAT_TO_REWIND = (
    Choice("both", "files and conversation", "b"),
    Choice("conversation", "conversation only", "c"),
    Choice("files", "files only", "f"),
)
MAX_NAMED = 5  # changed files, as many as a preview's line holds


async def rewind(state: PromptState, argument: str) -> None:
    """Picks a prompt (`/rewind NUMBER` names it) and what to rewind; `/rewind undo` restores the
    conversation."""
    conversation, screen = state.conversation, state.screen
    if argument == "undo":
        if conversation.undo_rewind():
            state.show_resumed()
        else:
            screen.print("Nothing was rewound since your last message.", "dim")
        return
    texts = conversation.prompts()
    prompts = [one_line(text) for text in texts]
    if not prompts:
        screen.print("There is no prompt to rewind to yet.", "dim")
        return
    files = await asyncio.to_thread(conversation.would_undo)
    about = {
        str(turn): "changed since: " + ", ".join(cut_list([*map(one_line, names)], MAX_NAMED))
        if names
        else "no files changed since"
        for turn, names in enumerate(files, 1)
    }
    choices = [Choice(f"{turn}", it, f"{turn}") for turn, it in enumerate(prompts, 1)]
    number = argument or await pick_value(
        screen, "Rewind to", choices[::-1], preview=lambda choice: [about[choice.value]]
    )
    if not number:
        return
    if number not in about:
        screen.print(f"/rewind takes a number from 1 to {len(prompts)}.", "warning")
        return
    turn = int(number)
    if screen.editor is None:
        screen.print(about[number], "dim")
    above = (("bold", f"> {prompts[turn - 1]}"), ("dim", about[number]))
    menu = Menu(
        _WHAT_TO_REWIND,
        above=lambda width: ["", *(screen.paint(style, clip(it, width)) for style, it in above)],
        hint="Enter chooses · Esc cancels",
    )
    what = await screen.read_answer("rewind: ", menu)
    if what not in [choice.value for choice in _WHAT_TO_REWIND]:
        return
    lines = await conversation.rewind(turn, files=what != "conversation", messages=what != "files")
    screen.print("\n".join(lines))
    if what != "files" and state.editor is not None:
        state.editor.put_back(texts[turn - 1])


SHOWN_MODELS = 8  # named in the error about a model that the server lacks


async def use_model(state: PromptState, argument: str) -> None:
    """Switches to a model from the next request on: the one named, or one picked from the
    provider's. A model that a local server lacks is refused, because the session's requests would
    fail. Raises: UserError."""
    from kode.config.choice import resolve_model, resolve_provider, row_of, switch_provider
    from kode.providers.models import vendor_models
    from kode.providers.server import is_near, reach_server, url_of

    conversation, screen = state.conversation, state.screen
    config, current = conversation.config, conversation.agent.provider
    if argument:
        row = row_of(config, current.name)
        provider, model = resolve_model(config, os.environ, row, argument)
    else:
        names = await asyncio.to_thread(conversation.list_models, ask=True)
        choices, at = mark_current(names, current.model)
        model = await pick_value(screen, "Choose a model", choices, selected=at) if choices else ""
        provider = current.name
        if not model:
            return _show_model(state)
    switched = switch_provider(config, os.environ, provider, model)
    choice = resolve_provider(switched, os.environ)
    models: Sequence[str] = vendor_models(provider)
    if is_near(url_of(choice)):
        reached = await asyncio.to_thread(reach_server, choice)
        models = reached.models
        if reached.lacks(model):
            near = suggest(model, models)
            listed = ", ".join(map(one_line, models[:SHOWN_MODELS]))
            raise UserError(f"The server has no model {one_line(model)}.{near} It has: {listed}.")
    conversation.use_model(model, provider)
    _show_model(state)
    if not conversation.agent.provider.info.known:
        near = suggest(model, [name for name in models if name != model])
        screen.print(
            f"kode does not know {one_line(model)}.{near} If the name is right, set "
            "`context.window` and `prices` in the config.",
            "warning",
        )


def _show_model(state: PromptState) -> None:
    provider = state.conversation.agent.provider
    window = count(provider.info.context_window)
    state.screen.print(f"Model: {provider.model} ({provider.name}), a window of {window} tokens.")


async def use_effort(state: PromptState, argument: str) -> None:
    """Shows how much the model thinks and what it accepts, or sets it from the next request on.
    Raises: UserError for an unknown level."""
    conversation = state.conversation
    info = conversation.agent.provider.info
    if not argument:
        now = conversation.agent.effort or info.default_effort
        choices, at = mark_current([*(info.efforts or EFFORTS), "default"], now or "default")
        argument = await pick_value(state.screen, "How much the model thinks", choices, selected=at)
    if argument:
        conversation.use_effort(argument.lower())
    state.screen.print(one_line(f"Effort: {effort_line(conversation)}"))


async def use_theme(state: PromptState, argument: str) -> None:
    """Switches the colours, in later sessions too. Raises: ConfigError for an unknown theme."""
    from kode.config.load import store_value

    names = [Choice(name, name) for name in ("auto", "dark", "light", "16", "none")]
    if name := argument or await pick_value(state.screen, "Choose the colours", names):
        path = store_value("repl.theme", name, "/theme")
        state.screen.use_theme(name)
        state.screen.print(f"Theme: {one_line(name)} ({path}).", "accent")


def effort_line(conversation: "Conversation") -> str:
    """Returns the effort that is set, and the levels that the model accepts."""
    info, model = conversation.agent.provider.info, conversation.agent.provider.model
    level = conversation.agent.effort or info.default_effort
    accepted = f" ({model} accepts {', '.join(info.efforts)})" if info.efforts else ""
    return (level or "model default") + accepted
