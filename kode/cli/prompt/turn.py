"""A turn of the model, from the prompt: until its end, and until its plan, if any, is decided."""

import asyncio
from typing import TYPE_CHECKING

from kode.cli.prompt.compose import open_in_editor
from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import one_line
from kode.cli.screen.menu import Choice, Menu
from kode.cli.screen.notify import LONG_TURN_S
from kode.events import TurnEnded
from kode.permissions.modes import PermissionMode
from kode.permissions.question import Question, visible

if TYPE_CHECKING:
    from kode.conversation.structured import Form

UNBEGUN = TurnEnded(status="interrupted", error="Interrupted before the turn began.")


async def run_turn(
    state: PromptState, text: str, shown: str = "", form: "Form | None" = None
) -> None:
    """Runs a turn to its end, and notifies a person who is elsewhere. `shown` is how they typed it,
    with pasted blocks folded; `form` is that of the answer. Raises: KodeError."""
    conversation = state.conversation
    state.jobs.doing, state.in_turn, state.screen.ended, ended = "", True, None, UNBEGUN
    try:
        ended = await conversation.turn(
            text, steering=state.take_steering, typed=shown or text, form=form
        )
    finally:
        state.in_turn, state.screen.ended = False, ended
    if conversation.fresh_plan:
        await _ask_about_plan(state)
    elif ended.duration_ms >= LONG_TURN_S * 1000 and state.waiting == []:
        outcome = "is done" if ended.status == "success" else f"ended: {ended.status}"
        state.screen.notify(f"{one_line(shown or text)} {outcome}")


async def _ask_about_plan(state: PromptState) -> None:
    """After a turn that ended with a plan: asks what to do with it."""
    menu = Menu(
        [
            Choice("ask", "go ahead, ask before each change", "y"),
            Choice("auto-edit", "go ahead, edit files in the project without asking", "a"),
            Choice("edit", "edit the plan first", "e"),
            Choice("no", "keep planning", "n"),
        ],
        above=lambda width: ["", state.screen.paint("title", "Go ahead with this plan?")],
        selected=3,
        hint="Tab: write what to change",
        takes_words=True,
    )
    given = lambda answer: "ask" if answer.choice == "once" else f"no, {answer.message}"  # noqa: E731
    while True:
        plan = await asyncio.to_thread(lambda: state.conversation.plan.text)
        asked = Question(tool="plan", title="Go ahead with this plan?", preview=visible(plan))
        keys = state.screen.read_answer("plan: ", menu)
        chosen = (await state.screen.first_of(keys, asked, given) or "").strip(" ,")
        if chosen == "edit":
            await edit_plan(state)
            continue
        if chosen in ("ask", "auto-edit"):
            await go_ahead(state, "auto-edit" if chosen == "auto-edit" else "ask")
        elif chosen not in ("", "no"):
            await run_turn(state, chosen)
        else:
            state.screen.print("Still planning. /plan go approves it, /plan edit edits it.", "dim")
        return


async def go_ahead(state: PromptState, mode: PermissionMode) -> None:
    """Approves the plan, and runs the turn that carries it out. Raises: KodeError."""
    text = await state.conversation.approve_plan(mode)
    state.screen.print(f"Plan approved · mode {mode}", "dim")
    await run_turn(state, text)


async def edit_plan(state: PromptState) -> None:
    """Opens the plan in the person's editor; the model gets the changes with the next message."""
    path = state.conversation.agent.place.plan
    lend = state.editor.lend_terminal if state.editor is not None else asyncio.to_thread
    if path is not None and await open_in_editor(path, lend, state.hint):
        state.renderer.show_answer(await asyncio.to_thread(lambda: state.conversation.plan.text))
