"""`/rewind`: goes back to a prompt of the session, in files, in the conversation, or in
both."""

from functools import partial

from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import clip, one_line
from kode.cli.screen.menu import Choice, Menu, matching

BOTH, CONVERSATION, FILES = "both", "conversation", "files"


async def rewind(state: PromptState, argument: str) -> None:
    """Picks a prompt (`/rewind NUMBER` names it) and what to rewind."""
    prompts = state.conversation.past.prompts()
    if not prompts:
        state.screen.print("There is no prompt to rewind to yet.", "dim")
        return
    number = argument or await _pick(state, prompts)
    if not number:
        return
    if not number.isdecimal() or not 0 < int(number) <= len(prompts):
        state.screen.print(f"/rewind takes a number from 1 to {len(prompts)}.", "warning")
        return
    turn = int(number)
    what = await _what(state, prompts[turn - 1])
    if what is None:
        return
    lines = await state.conversation.past.rewind(
        turn, files=what != CONVERSATION, conversation=what != FILES
    )
    for line in lines:
        state.screen.print(line)
    if what != FILES and state.editor is not None:
        state.editor.put_back(prompts[turn - 1])


async def _pick(state: PromptState, prompts: list[str]) -> str | None:
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
        above=lambda width: ["", state.screen.paint("title", "Rewind to")],
        hint="type to search · Enter chooses · Esc cancels",
    )
    return await state.screen.read_answer("search: ", menu)


async def _what(state: PromptState, prompt: str) -> str | None:
    """What to rewind; None for nothing."""
    menu = Menu(
        [
            Choice(BOTH, "files and conversation", "b"),
            Choice(CONVERSATION, "conversation only", "c"),
            Choice(FILES, "files only", "f"),
        ],
        above=lambda width: ["", state.screen.paint("title", clip(f"> {one_line(prompt)}", width))],
        hint="Enter chooses · Esc cancels",
    )
    answer = (await state.screen.read_answer("rewind: ", menu) or "").strip().lower()
    chosen = [one.value for one in menu.choices if answer in (one.value, one.key)]
    return chosen[0] if chosen else None
