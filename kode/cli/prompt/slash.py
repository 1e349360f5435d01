"""The slash commands of the REPL, each a function of the conversation and the screen.

`state` parses lines and decides when a command may run.
"""

import shlex
from collections.abc import Sequence

from kode.cli.flags import MODES
from kode.cli.parser import nearest
from kode.cli.prompt.about import run_doctor, say_how_to_log_in, show_config, show_status
from kode.cli.prompt.brought import show_servers, shows
from kode.cli.prompt.changes import redo, show_diff, undo
from kode.cli.prompt.effort import use_effort
from kode.cli.prompt.export import copy, export
from kode.cli.prompt.memory_review import review_memory
from kode.cli.prompt.model import use_model
from kode.cli.prompt.overview import show_context, show_cost, show_todos
from kode.cli.prompt.plan import plan
from kode.cli.prompt.prepared import review, write_instructions
from kode.cli.prompt.rewind import rewind
from kode.cli.prompt.sessions import list_sessions, resume
from kode.cli.prompt.state import PROMPT_ALIASES, Command, PromptState
from kode.cli.screen.lines import explain, one_line
from kode.cli.screen.permission_rules import CHANGES, change_rules, rule_rows
from kode.contracts import MODE_CALLED, MODE_MEANS
from kode.errors import UserError
from kode.messages import columns

KEYS = (
    ("Enter", "send; while a turn runs, with its next step"),
    ("Alt+Enter, \\ Enter", "new line; while a turn runs, queue for its end"),
    ("Up, Ctrl-R", "history; edit a queued message"),
    ("Tab", "complete a command, its arguments, or an @file"),
    ("Ctrl-C, Esc", "stop the turn; clear the line; Ctrl-C twice quits"),
    ("Shift-Tab", "next permission mode"),
    ("Esc Esc", "edit the last message"),
    ("Ctrl-O, Ctrl-T", "full tool output; fold or unfold what the model thinks"),
    ("Ctrl-B", "running command to the background"),
    ("Ctrl-V", "paste an image"),
    ("Ctrl-X Ctrl-E", "write the message in your editor ($VISUAL or $EDITOR)"),
    ("Ctrl-Z, Ctrl-D", "suspend (`fg` resumes); quit"),
)

SIGNS = (
    ("@path", "attach a file, an image or a folder: @src/main.py, @src/"),
    ("!command", "run a shell command; its output goes with your next message"),
    ("#fact", "remember something (#env: ... for this project)"),
)

GROUPS = (
    ("/new /resume /sessions", "start a session, open another, list them"),
    ("/undo /redo /rewind /diff", "undo, redo, go back, show changes"),
    ("/init /review", "write AGENTS.md; review your changes"),
    ("/model /effort", "switch the model; how much it thinks"),
    ("/permissions /plan", "switch the mode; plan first"),
    ("/memory /remember", "show memory; remember something"),
    ("/status /context /cost", "this session, its context, its cost"),
    ("/details /todos /bg", "full output, todos, background commands"),
    ("/skills /commands /agents /hooks", "list them; /NAME runs a skill or command"),
    ("/compact /copy /export", "summarize; copy the answer; write a file"),
    ("/config /mcp /doctor /login", "settings, MCP servers, checks, your key"),
    ("/help NAME, /quit", "more about one command; quit"),
)
"""The commands in the order of /help: together they fit a small screen."""

UNDO = "/memory undo"

DOCUMENTS = "docs/repl.md and the other pages of docs/ in kode's source"


async def show_help(state: PromptState, argument: str) -> None:
    """Shows commands and signs on one small screen, or with `keys` the keys; with a command's name,
    what it does. Raises: UserError for an unknown command."""
    screen = state.screen
    if argument and argument != "keys":
        name = f"/{argument.split()[0].lstrip('/')}"
        name = PROMPT_ALIASES.get(name, name)
        if name not in COMMANDS:
            raise UserError(f"There is no command {one_line(name)}.{nearest(name, COMMANDS)}")
        screen.print(explain([(name, COMMANDS[name].summary)], screen.width))
        return
    more = [("modes", ", ".join(MODES)), ("docs", DOCUMENTS)]
    signs = [*SIGNS, ("/help keys", "the keys, the modes, the documentation")]
    pages = {
        "": (("Commands", GROUPS), ("At the start of a message, @ anywhere", signs)),
        "keys": (("Keys", KEYS), ("More", more)),
    }
    for title, pairs in pages[argument]:
        screen.print(title, "bold")
        screen.print(explain(pairs, screen.width))


async def start_new(state: PromptState, argument: str) -> None:
    """Lets memory process the session, then starts an empty one."""
    await state.conversation.new_session()
    state.screen.print("New session. The old one is in /sessions.", "dim")


async def memory(state: PromptState, argument: str) -> None:
    """Runs `kode memory ...` on the open memory."""
    try:
        argv = shlex.split(argument) or ["show"]
    except ValueError as error:
        state.screen.print(f"/memory: {error}. Close the quotes and try again.", "error")
        return
    if argv == ["review"] and state.editor is not None:
        state.renderer.held = []  # the review itself reports decisions
        try:
            await review_memory(state.screen, await state.conversation.opened_memory())
        finally:
            state.renderer.held = None
        return
    await _memory_command(state, argv)


async def _memory_command(state: PromptState, argv: Sequence[str]) -> None:
    renderer = state.renderer
    renderer.held = []
    try:
        done = await state.conversation.memory_command(argv, undo=UNDO)
    finally:
        held, renderer.held = renderer.held, None
    state.screen.print(done.in_words(UNDO).rstrip("\n"))
    for event in held:
        if event.change_id not in done.change_ids:  # of a change that was not requested
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
        undone = state.conversation.past.undo_compaction()
        state.screen.print(undone or "No compaction to undo.", "" if undone else "dim")
        return
    reduced = await state.conversation.compact(argument)
    if reduced is None:
        state.screen.print("Nothing to compact yet.", "dim")


async def permissions(state: PromptState, argument: str) -> None:
    """Shows mode and rules, switches the mode, or removes, restores or edits an answer. Raises:
    KodeError."""
    gate = state.conversation.agent.gate
    # A rule may have spaces, an id has none.
    words = argument.split(maxsplit=2) if argument.startswith("edit ") else argument.split()
    if words and words[0] in CHANGES:
        state.screen.print(change_rules(words, gate.change_approvals))
        return
    if argument:
        mode = MODE_CALLED.get(argument)
        if mode is None:
            known = (*MODES, *CHANGES)
            raise UserError(
                f"There is no mode {one_line(argument)!r}.{nearest(argument, known)} "
                f"Modes: {', '.join(MODES)}. Also: {', '.join(CHANGES)}."
            )
        state.conversation.set_permission_mode(mode)
    state.screen.print(f"Mode: {state.conversation.mode}. {MODE_MEANS[state.conversation.mode]}")
    standing = gate.standing_rules()
    for row in columns(rule_rows(standing, state.conversation.loaded.origins)):
        state.screen.print(f"  {row}")
    if not argument:
        state.screen.print("/permissions MODE switches: " + ", ".join(MODES) + ".", "dim")
    if any(one.id for one in standing):
        state.screen.print(f"/permissions {'; '.join(CHANGES.values())}.", "dim")


async def show_details(state: PromptState, argument: str) -> None:
    """Shows the last calls in full, and the thinking: paged, or printed without a pager. Raises:
    UserError for what is no number."""
    if argument and not (argument.isdecimal() and int(argument) > 0):
        raise UserError(f"/details takes a number of calls, not {one_line(argument)!r}: /details 3")
    newest = int(argument) if argument else None
    text, line = state.renderer.details.render(state.screen, newest)
    if not text:
        state.screen.print("The model has not called a tool yet.", "dim")
        return
    if await state.page(text, line):
        return
    # Without a pager all of it would push the conversation away.
    state.screen.print_painted(state.renderer.details.render(state.screen, newest or 1)[0])


async def background(state: PromptState, argument: str) -> None:
    """Moves the running shell command to the background; lists, reads, kills those there."""
    from kode.cli.prompt import background

    await background.background(state, argument)


async def leave(state: PromptState, argument: str) -> None:
    """Ends the REPL; asks first if something runs in the background."""
    from kode.cli.prompt.background import may_leave

    if await may_leave(state):
        state.leave()


COMMANDS = {
    command.name: command
    for command in (
        Command("/help", "commands and keys: /help [keys or NAME]", show_help, while_busy=True),
        Command("/new", "start a new session", start_new, alone=True),
        Command("/resume", "open another session: /resume [NUMBER or ID]", resume),
        Command(
            "/sessions",
            "list the sessions of this directory",
            list_sessions,
            while_busy=True,
            alone=True,
        ),
        Command("/model", "list or switch models: /model [NAME or PROVIDER/NAME]", use_model),
        Command("/effort", "how much the model thinks: /effort [LEVEL]", use_effort),
        Command(
            "/permissions",
            f"show rules, remove or restore yours, or set the mode: {', '.join(MODES)}",
            permissions,
            while_busy=True,
        ),
        Command("/plan", "plan first: /plan, then /plan [show|edit|go|drop]", plan),
        Command("/init", "write AGENTS.md for this project, or improve it", write_instructions),
        Command("/review", "review uncommitted changes, or a branch: /review [BRANCH]", review),
        Command(
            "/memory", "show or change memory: /memory [show|search|why|review|undo ...]", memory
        ),
        Command("/remember", "remember something: /remember [TARGET:] TEXT, or #TEXT", remember),
        Command(
            "/status",
            "version, session, model, sandbox, memory, instructions",
            show_status,
            alone=True,
        ),
        Command(
            "/cost",
            "tokens and money: last turn, session, today",
            show_cost,
            while_busy=True,
            alone=True,
        ),
        Command(
            "/context", "what fills the context, and what frees it", show_context, True, alone=True
        ),
        Command(
            "/compact",
            "summarize the conversation: /compact [WHAT TO KEEP], /compact undo",
            compact,
        ),
        Command("/undo", "undo the last turn's file changes; repeat for earlier turns", undo),
        Command("/redo", "redo the last /undo", redo, alone=True),
        Command("/rewind", "go back to a prompt: files, conversation or both", rewind),
        Command("/diff", "show this session's changes: /diff [FILE]", show_diff, while_busy=True),
        Command("/details", "full output of recent tool calls: /details [N]", show_details, True),
        Command("/todos", "the model's todo list", show_todos, while_busy=True, alone=True),
        Command("/skills", "skills: used and pending", shows("skills"), alone=True),
        Command("/commands", "commands that files define", shows("commands"), alone=True),
        Command("/agents", "agent definitions for subagents", shows("agents"), alone=True),
        Command("/hooks", "hooks: used and pending", shows("hooks"), alone=True),
        Command("/bg", "background commands: list, /bg read ID, /bg kill ID", background, True),
        Command("/mcp", "MCP servers: running and off", show_servers, while_busy=True, alone=True),
        Command("/copy", "copy the last answer", copy, while_busy=True, alone=True),
        Command("/export", "write the session to a file: /export [NAME.md or NAME.json]", export),
        Command("/config", "the settings and their sources: /config [PART]", show_config, True),
        Command("/doctor", "check this machine", run_doctor, alone=True),
        Command(
            "/login",
            "which key is used, and how to set up another",
            say_how_to_log_in,
            True,
            alone=True,
        ),
        Command("/quit", "quit", leave, while_busy=True, alone=True),
    )
}
