"""`/rewind`: goes back to a prompt of the session, in files, in the conversation, or in
both."""

import asyncio
from functools import partial

from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import clip, one_line
from kode.cli.screen.menu import Choice, Menu, matching
from kode.messages import first_of

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
    what = await _what(state, prompts[turn - 1], about[turn - 1])
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


async def _pick(state: PromptState, prompts: list[str], about: list[str]) -> str | None:
    choices = [
        Choice(str(turn), f"{turn}  {one_line(text)}") for turn, text in enumerate(prompts, 1)
    ][::-1]
    if state.screen.editor is None:
        for choice in choices:
            state.screen.print(clip(f"  {choice.text}", state.screen.width))
        return await state.screen.read_answer("rewind to number (Enter cancels): ")
    menu = Menu(
        choices,
        find=partial(matching, choices),
        preview=lambda choice: [about[int(choice.value) - 1]],
        above=lambda width: ["", state.screen.paint("title", "Rewind to")],
        hint="type to search · Enter chooses · Esc cancels",
    )
    return await state.screen.read_answer("search: ", menu)


async def _what(state: PromptState, prompt: str, about: str) -> str | None:
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
