"""The slash commands of the REPL, each a function of the conversation and the screen.

`submit` parses lines and decides when a command may run."""

import asyncio
import base64
import shlex
from collections.abc import Sequence

from kode import paths
from kode.cli.flags import MODES
from kode.cli.parser import nearest
from kode.cli.prompt.attach import use_clipboard
from kode.cli.prompt.pickers import resume, review_memory, rewind, use_effort, use_model
from kode.cli.prompt.reports import (
    show_context,
    show_cost,
    show_diff,
    show_extensions,
    show_status,
)
from kode.cli.prompt.shell_line import background, may_leave
from kode.cli.prompt.state import PromptState, SlashCommand
from kode.cli.prompt.submit import edit_plan, go_ahead, run_turn
from kode.cli.screen.describe import CHANGES, change_rules, rule_rows
from kode.cli.screen.lines import explain, one_line
from kode.errors import UserError
from kode.messages import columns, plural
from kode.permissions.modes import MODE_CALLED, MODE_MEANS

PLAN_WORDS = ("show", "edit", "go", "drop")


async def plan(state: PromptState, argument: str) -> None:
    """Without a word: switches to mode plan, and shows the plan if any. `show`, `edit`, `go` and
    `drop` act on the existing plan; other words are a task to plan. Raises: UserError without a
    plan."""
    conversation, screen = state.conversation, state.screen
    plan = conversation.plan
    if argument not in PLAN_WORDS:
        conversation.set_permission_mode("plan")
        screen.print("Mode: plan. Nothing changes until you approve a plan.")
        if argument:
            return await run_turn(state, argument, f"/plan {argument}")
    text = await asyncio.to_thread(lambda: plan.text)
    if argument and not text.strip():
        raise UserError("There is no plan yet: /plan, then say what you want.")
    if argument == "edit":
        await edit_plan(state)
    elif argument == "go":
        await go_ahead(state, "ask")
    elif argument == "drop":
        await asyncio.to_thread(plan.write, "")
        screen.print("Plan dropped. The model learns of it with your next message.", "dim")
    elif text.strip():
        state.renderer.show_answer(text)
        screen.print(str(plan.path), "dim")


_COPY = (
    ("WAYLAND_DISPLAY", "wl-copy"),
    ("DISPLAY", "xclip -selection clipboard"),
    ("", "pbcopy"),
)
"""(variable that must be set, command that fills the clipboard)"""


async def copy(state: PromptState, argument: str) -> None:
    """Copies the last answer to the clipboard. Raises: UserError if there is none."""
    data = state.conversation.last_answer().encode("utf-8", "replace")
    if not data:
        raise UserError("There is no answer to copy yet.")
    program, output = await asyncio.to_thread(use_clipboard, _COPY, data)
    ways = [program] if output is not None else []
    if state.screen.rich_terminal:
        # The terminal's own clipboard (OSC 52): works through ssh, if the terminal allows it.
        state.screen.control(f"\x1b]52;c;{base64.b64encode(data).decode()}\x07")
        ways.insert(0, "the terminal")
    if not ways:
        raise UserError("No clipboard was found. Install wl-copy, xclip or pbcopy.")
    size = plural(data.count(b"\n") + 1, "line")
    state.screen.print(f"Copied {size} to the clipboard by {' and '.join(ways)}.", "dim")


async def undo(state: PromptState, argument: str) -> None:
    """Undoes the last turn's file changes; repeated: the turn before."""
    state.screen.print(await state.conversation.undo())


async def redo(state: PromptState, argument: str) -> None:
    """Redoes the last `/undo`."""
    state.screen.print(await state.conversation.redo())


WORKING_TREE = (
    "the uncommitted changes of this repository: `git status`, `git diff HEAD`, and the files that "
    "are not tracked yet"
)
BRANCH = (
    "the branch `{name}`: everything it changes since it left the branch it is to be merged into, "
    "which is most likely the repository's default branch (`git merge-base`, then `git diff`)"
)


async def write_instructions(state: PromptState, argument: str) -> None:
    """Runs a turn in which the model writes or improves AGENTS.md."""
    from kode.prompts import template

    wish = f"\n\nThe person adds: {argument}" if argument else ""
    await run_turn(state, template("init") + wish, f"/init {argument}".strip())


async def review(state: PromptState, argument: str) -> None:
    """Runs a turn in which the model reviews the working tree, or the named branch."""
    from kode.prompts import template

    what = BRANCH.format(name=one_line(argument)) if argument else WORKING_TREE
    await run_turn(state, template("review").replace("{what}", what), f"/review {argument}".strip())


KEYS = (
    ("Enter", "send; while a turn runs, with its next step"),
    ("Alt+Enter, \\ Enter", "new line; while a turn runs, queue for its end"),
    ("Up, Ctrl-R", "history; edit a queued message"),
    ("Tab", "complete a command or an @file"),
    ("Ctrl-C, Esc", "stop the turn; clear the line; Ctrl-C twice quits"),
    ("Shift-Tab", "next permission mode"),
    ("Esc Esc", "edit the last message"),
    ("Ctrl-O", "the last calls and thoughts in full"),
    ("Ctrl-B", "running command to the background"),
    ("Ctrl-V", "paste an image"),
    ("Ctrl-X Ctrl-E", "write the message in your editor ($VISUAL or $EDITOR)"),
    ("Ctrl-Z, Ctrl-D", "suspend (`fg` resumes); quit"),
)

SIGNS = (
    ("@path", "name a file or folder, attach an image: @src/main.py"),
    ("!command", "run a shell command; its output goes with your next message"),
    ("#fact", "remember something (#env: ... for this project)"),
    ("/help all", "every command, with what it takes"),
    ("/help keys", "the keys, the modes, the documentation"),
)

FIRST = tuple(
    "/help /new /resume /model /permissions /plan /memory /status /cost /compact /undo /rewind "
    "/diff /extensions /quit".split()
)
"""The commands that `/help` lists, and the menu for a lone `/`."""


async def show_help(state: PromptState, argument: str) -> None:
    """Shows the first commands and the signs on one small screen, with `all` every command, with
    `keys` the keys. Raises: UserError for another word."""
    screen = state.screen
    names = [name for name in COMMANDS if name != "/remember"] if argument else FIRST  # see SIGNS
    commands = [(name, COMMANDS[name].summary) for name in names]
    more = [("modes", ", ".join(MODES)), ("docs", paths.short_path(paths.documents()))]
    pages = {
        "": (("Commands", commands), ("At the start of a message, @ anywhere", SIGNS)),
        "all": (("Commands", [(f"{n} {COMMANDS[n].takes}", what) for n, what in commands]),),
        "keys": (("Keys", KEYS), ("More", more)),
    }
    if argument not in pages:
        raise UserError("/help takes all, keys or nothing.")
    for title, pairs in pages[argument]:
        screen.print(title, "bold")
        screen.print(explain(pairs, screen.width))


async def start_new(state: PromptState, argument: str) -> None:
    """Lets memory process the session, then starts an empty one."""
    await state.conversation.switch_session()
    state.screen.print("New session. /resume opens the previous one.", "dim")


async def memory(state: PromptState, argument: str) -> None:
    """Runs `kode memory ...` on the open memory. Raises: KodeError."""
    try:
        argv = shlex.split(argument) or ["show"]
    except ValueError as error:
        raise UserError(f"/memory: {error}. Close the quotes and try again.") from None
    if argv != ["review"] or state.editor is None:
        await _memory_command(state, argv)
        return
    state.renderer.unshown_changes = []  # the review itself reports decisions
    try:
        await state.conversation.start()
        await review_memory(state.screen, state.conversation.agent.memory)
    finally:
        state.renderer.unshown_changes = None


async def _memory_command(state: PromptState, argv: Sequence[str]) -> None:
    from kode.memory.commands import with_undo

    renderer = state.renderer
    renderer.unshown_changes = []
    try:
        outcome = await state.conversation.memory_command(argv)
    finally:
        changes, renderer.unshown_changes = renderer.unshown_changes, None
    state.screen.print(with_undo(outcome, "/memory undo").rstrip("\n"))
    for event in changes:
        if outcome.change is None or event.change_id != outcome.change.id:
            renderer.emit(event)


async def remember(state: PromptState, argument: str) -> None:
    """Stores a fact like `/memory add`: in the place named before a colon, else in the one about
    the person. Raises: UserError without a text; KodeError."""
    from kode.registry import systems

    name = state.conversation.config.memory.system
    row = systems(name)[name]
    target, colon, text = argument.partition(":")
    if not colon or target.strip() not in row.targets:
        target, text = row.about_user, argument
    if state.editor is not None:
        text = state.editor.pastes.unfold(text)
    if not text.strip():
        raise UserError("/remember TEXT saves a fact; so does a line that starts with #.")
    await _memory_command(state, ["add", target.strip(), "--", text.strip()])


async def compact(state: PromptState, argument: str) -> None:
    """Summarizes the conversation now; the argument says what the summary should keep. `undo`
    restores what the last one removed from the model's view."""
    if argument == "undo":
        undone = state.conversation.undo_compaction()
        state.screen.print(undone or "No compaction to undo.", "" if undone else "dim")
        return
    reduced = await state.conversation.compact(argument)
    if reduced is None:
        state.screen.print("Nothing to compact: it would free nothing yet.", "dim")


async def permissions(state: PromptState, argument: str) -> None:
    """Shows mode and rules, switches the mode, or removes or restores answers. Raises:
    KodeError."""
    gate = state.conversation.agent.gate
    words = argument.split()
    if words and words[0] in CHANGES:
        state.screen.print(change_rules("/permissions", words, gate.change_approvals))
        return
    if argument:
        mode = MODE_CALLED.get(argument)
        if mode is None:
            raise UserError(
                f"There is no mode {one_line(argument)!r}.{nearest(argument, (*MODES, *CHANGES))} "
                f"Modes: {', '.join(MODES)}. Also: {', '.join(CHANGES)}."
            )
        state.conversation.set_permission_mode(mode)
    state.screen.print(
        f"Mode: {state.conversation.gate.mode}. {MODE_MEANS[state.conversation.gate.mode]}"
    )
    standing = gate.standing_rules()
    for row in columns(rule_rows(standing, state.conversation.settings.loaded.origins)):
        state.screen.print(f"  {row}")
    ways = [("MODE", "switch to " + ", ".join(MODES))]
    ways += CHANGES.values() if any(rule.id for rule in standing) else ()
    rows = [(f"/permissions {words}", meaning) for words, meaning in ways]
    state.screen.print(explain(rows, state.screen.width), "dim")


async def leave(state: PromptState, argument: str) -> None:
    """Ends the REPL; asks first if something runs in the background."""
    if await may_leave(state):
        state.leave()


_ROWS = (
    SlashCommand("/help", "commands and keys", show_help, "[all or keys]", True),
    SlashCommand("/new", "start a new session", start_new),
    SlashCommand("/resume", "resume another session", resume, "[NUMBER or ID]"),
    SlashCommand("/model", "list or switch models", use_model, "[NAME or PROVIDER/NAME]"),
    SlashCommand("/effort", "set how much the model thinks", use_effort, "[LEVEL]"),
    SlashCommand(
        "/permissions",
        "show or set the mode; list, remove or restore your answers",
        permissions,
        f"[{'|'.join((*MODES, *CHANGES))} ...]",
        True,
    ),
    SlashCommand("/plan", "plan first, then approve", plan, f"[TASK|{'|'.join(PLAN_WORDS)}]"),
    SlashCommand("/init", "write or improve AGENTS.md", write_instructions, "[WISH]"),
    SlashCommand("/review", "review uncommitted changes, or a branch", review, "[BRANCH]"),
    SlashCommand("/memory", "show, search, review or undo memory", memory, "[COMMAND]"),
    SlashCommand("/remember", "remember a fact, as #FACT does", remember, "[env:] FACT"),
    SlashCommand("/status", "version, session, model, sandbox, memory, instructions", show_status),
    SlashCommand("/cost", "tokens and money: turn, session, today", show_cost, while_busy=True),
    SlashCommand("/context", "what fills the context window", show_context, while_busy=True),
    SlashCommand("/compact", "summarize the conversation", compact, "[WHAT TO KEEP or undo]"),
    SlashCommand("/undo", "undo the last turn's file changes; repeat for earlier turns", undo),
    SlashCommand("/redo", "redo the last /undo", redo),
    SlashCommand("/rewind", "rewind files or conversation", rewind, "[NUMBER or undo]"),
    SlashCommand("/diff", "show this session's changes", show_diff, "[FILE]", True),
    SlashCommand("/extensions", "skills, commands, hooks, MCP servers", show_extensions, "[KIND]"),
    SlashCommand("/bg", "what runs in the background", background, "[kill ID]", True),
    SlashCommand("/copy", "copy the last answer", copy, while_busy=True),
    SlashCommand("/quit", "quit", leave, while_busy=True),
)
COMMANDS = {command.name: command for command in _ROWS}
