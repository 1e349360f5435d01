"""`/plan`: switches to mode plan; shows, edits, approves or drops the session's plan."""

import asyncio
import os

from kode.cli.prompt.state import PromptState
from kode.cli.screen.menu import Choice, Menu
from kode.contracts import PermissionMode
from kode.errors import UserError
from kode.session.plan import read_plan, write_plan

WORDS = ("show", "edit", "go", "drop")


async def plan(state: PromptState, argument: str) -> None:
    """Without a word: switches to mode plan, and shows the plan if any. `show`, `edit`, `go` and
    `drop` act on the existing plan.

    Raises: UserError for another word, or without a plan.
    """
    talk, screen = state.conversation, state.screen
    path = talk.agent.place.plan
    if argument and argument not in WORDS:
        raise UserError(f"/plan takes {', '.join(WORDS)} or nothing.")
    if not argument:
        talk.set_permission_mode("plan")
        screen.print("Mode: plan. Nothing changes until you approve a plan.")
    text = await asyncio.to_thread(read_plan, path)
    if argument and (path is None or not text.strip()):
        raise UserError("There is no plan yet: /plan, then say what you want.")
    if argument == "edit":
        await _edit(state)
    elif argument == "go":
        await _go(state, "ask")
    elif argument == "drop" and path is not None:
        await asyncio.to_thread(write_plan, path, "")
        screen.print("Plan dropped. The model learns of it with your next message.", "dim")
    elif text.strip():
        state.renderer.show_answer(text)
        screen.print(str(path), "dim")


async def ask_about_plan(state: PromptState) -> None:
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
        hint="or type what to change",
    )
    while True:
        if state.screen.editor is None:
            for choice in menu.choices:
                state.screen.print(f"  [{choice.key}] {choice.text}")
        typed = (await state.screen.read_answer("plan: ", menu) or "").strip()
        word = typed.lower()
        chosen = next((one.value for one in menu.choices if word in (one.value, one.key)), typed)
        if chosen == "edit":
            await _edit(state)
            continue
        if chosen in ("ask", "auto-edit"):
            await _go(state, "auto-edit" if chosen == "auto-edit" else "ask")
        elif chosen not in ("", "no"):
            await state.run_turn(chosen)
        else:
            state.screen.print("Still planning. /plan go approves it, /plan edit edits it.", "dim")
        return


async def _go(state: PromptState, mode: PermissionMode) -> None:
    text = await state.conversation.approve_plan(mode)
    state.screen.print(f"Plan approved · mode {mode}", "dim")
    await state.run_turn(text)


async def _edit(state: PromptState) -> None:
    """Opens the plan in the person's editor; the model gets the changes with the next message."""
    from kode.cli.prompt.compose import editor_command, run_editor

    path = state.conversation.agent.place.plan
    command, hint = editor_command()
    if hint:
        state.hint(hint)
    if command is None or path is None:
        return
    if state.editor is not None:
        saved = await state.editor.lend_terminal(lambda: run_editor([*command, str(path)]))
    else:
        saved = await asyncio.to_thread(run_editor, [*command, str(path)])
    if not saved:
        state.hint(f"{os.path.basename(command[0])} exited with an error.")
        return
    state.renderer.show_answer(await asyncio.to_thread(read_plan, path))
