"""`/plan`: switches to mode plan; shows, edits, approves or drops the session's plan."""

import asyncio

from kode.cli.prompt.state import PromptState
from kode.cli.prompt.turn import edit_plan, go_ahead
from kode.errors import UserError
from kode.session.plan import read_plan, write_plan

WORDS = ("show", "edit", "go", "drop")


async def plan(state: PromptState, argument: str) -> None:
    """Without a word: switches to mode plan, and shows the plan if any. `show`, `edit`, `go` and
    `drop` act on the existing plan.

    Raises: UserError for another word, or without a plan.
    """
    conversation, screen = state.conversation, state.screen
    path = conversation.agent.place.plan
    if argument and argument not in WORDS:
        raise UserError(f"/plan takes {', '.join(WORDS)} or nothing.")
    if not argument:
        conversation.set_permission_mode("plan")
        screen.print("Mode: plan. Nothing changes until you approve a plan.")
    text = await asyncio.to_thread(read_plan, path)
    if argument and (path is None or not text.strip()):
        raise UserError("There is no plan yet: /plan, then say what you want.")
    if argument == "edit":
        await edit_plan(state)
    elif argument == "go":
        await go_ahead(state, "ask")
    elif argument == "drop" and path is not None:
        await asyncio.to_thread(write_plan, path, "")
        screen.print("Plan dropped. The model learns of it with your next message.", "dim")
    elif text.strip():
        state.renderer.show_answer(text)
        screen.print(str(path), "dim")
