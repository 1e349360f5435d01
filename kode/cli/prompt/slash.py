"""The slash commands of the REPL, each one row and one function of the prompt's state; those that
open a list to pick from are in `pickers`.

`submit` parses lines and decides when a command may run."""

import asyncio
import base64
import platform
import shlex
import time
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from kode import __version__, paths
from kode.cli.flags import MODES
from kode.cli.parser import suggest
from kode.cli.prompt.attach import use_clipboard
from kode.cli.prompt.pickers import effort_line, resume, rewind, use_effort, use_model, use_theme
from kode.cli.prompt.state import PromptState, SlashCommand
from kode.cli.prompt.submit import edit_plan, go_ahead, run_turn
from kode.cli.screen.lines import align_pairs, bars, clip, count, duration, format_cost, one_line
from kode.cli.screen.printer import CHANGES, change_rules, rule_rows
from kode.cli.screen.screen import Screen
from kode.errors import UserError
from kode.extensions.review import NONE, lines_of, read_instructions, rows_of
from kode.messages import align_columns, plural
from kode.permissions.names import MODE_CALLED, MODE_MEANS
from kode.permissions.question import visible
from kode.plain_text import sanitize
from kode.prompts import template
from kode.registry import SYSTEMS, SystemRow
from kode.tools.background import BackgroundCommand

if TYPE_CHECKING:
    from kode.conversation import Conversation
    from kode.session.spending import Spending, Spent
    from kode.undo.undo import FileDiff

PLAN_WORDS = ("go", "edit")


async def plan(state: PromptState, argument: str) -> None:
    """Without a word: switches to mode plan, and shows the plan if any. `go` and `edit` act on the
    existing plan; other words are a task to plan. Raises: UserError without a plan."""
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
    elif text.strip():
        state.renderer.show_answer(text)
        screen.print(str(plan.path), "dim")


_COPY = (("WAYLAND_DISPLAY", "wl-copy"), ("DISPLAY", "xclip -selection clipboard"), ("", "pbcopy"))
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


async def rename(state: PromptState, argument: str) -> None:
    """Gives the session a name. Raises: UserError for a name that a session cannot have."""
    session = state.conversation.session
    session.give_name(argument)
    state.screen.print(f"This session is called {session.name}: kode -r {session.name}", "dim")


async def undo(state: PromptState, argument: str) -> None:
    """Undoes the last turn's file changes; each repetition undoes the turn before."""
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
    wish = f"\n\nThe person adds: {argument}" if argument else ""
    await run_turn(state, template("init") + wish, f"/init {argument}".strip())


async def review(state: PromptState, argument: str) -> None:
    """Runs a turn in which the model reviews the working tree, or the named branch."""
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


async def show_help(state: PromptState, argument: str) -> None:
    """Shows the first commands and the special signs; with `all`, every command; with `keys`, the
    keys, modes and documentation. Raises: UserError for another word."""
    screen = state.screen
    commands = [(row.name, row.summary) for row in FIRST]
    more = [("modes", ", ".join(MODES)), ("docs", paths.short_path(paths.documentation_folder()))]
    pages = {
        "": (("Commands", commands), ("At the start of a message, @ anywhere", SIGNS)),
        "all": (("Commands", [(f"{it.name} {it.takes}", it.summary) for it in COMMANDS.values()]),),
        "keys": (("Keys", KEYS), ("More", more)),
    }
    if argument not in pages:
        raise UserError("/help takes all, keys or nothing.")
    for title, pairs in pages[argument]:
        screen.print(title, "bold")
        screen.print(align_pairs(pairs, screen.width))


async def start_new(state: PromptState, argument: str) -> None:
    """Lets memory process the session, then starts an empty one."""
    await state.conversation.switch_session()
    state.screen.print("New session. /resume opens the previous one.", "dim")


async def run_memory(state: PromptState, argument: str) -> None:
    """Runs `kode memory ...` on the open memory. Raises: KodeError."""
    try:
        argv = shlex.split(argument) or ["show"]
    except ValueError as error:
        raise UserError(f"/memory: {error}. Close the quotes and try again.") from None
    await _memory_command(state, argv)


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
    """Stores a fact as `/memory add` does: under the target named before a colon, else under the
    one about the person. Raises: UserError without a text; KodeError."""
    row = SYSTEMS.get(state.conversation.config.memory.system, SystemRow())
    target, colon, text = argument.partition(":")
    if not colon or target.strip() not in row.targets:
        target, text = row.about_user, argument
    if not (text := state.pastes.unfold(text).strip()):
        raise UserError("/remember TEXT saves a fact; so does a line that starts with #.")
    await _memory_command(state, ["add", target.strip(), "--", text])


async def compact(state: PromptState, argument: str) -> None:
    """Summarizes the conversation now; the argument says what the summary should keep. The argument
    `undo` restores what the last compaction removed from the model's view."""
    if argument == "undo":
        undone = state.conversation.undo_compaction()
        state.screen.print(undone or "No compaction to undo.", "" if undone else "dim")
        return
    reduced = await state.conversation.compact(argument)
    if reduced is None:
        state.screen.print("Nothing to compact yet.", "dim")


async def manage_permissions(state: PromptState, argument: str) -> None:
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
                f"There is no mode {one_line(argument)!r}.{suggest(argument, (*MODES, *CHANGES))} "
                f"Modes: {', '.join(MODES)}. Also: {', '.join(CHANGES)}."
            )
        state.conversation.set_permission_mode(mode)
    state.screen.print(f"Mode: {gate.state.mode}. {MODE_MEANS[gate.state.mode]}")
    standing = gate.standing_rules()
    for row in align_columns(rule_rows(standing, state.conversation.settings.loaded.origins)):
        state.screen.print(f"  {row}")
    ways = [("MODE", "switch to " + ", ".join(MODES))]
    ways += CHANGES.values() if any(rule.id for rule in standing) else ()
    rows = [(f"/permissions {words}", meaning) for words, meaning in ways]
    state.screen.print(align_pairs(rows, state.screen.width), "dim")


TITLES = {"turn": "last turn", "session": "this session", "day": "today, all sessions"}
MAX_NAME_COLUMNS = 36


async def show_status(state: PromptState, argument: str) -> None:
    """Shows version, session, folder, model, mode, sandbox, memory, instructions, config files."""
    conversation = state.conversation
    session, provider = conversation.session, conversation.agent.provider
    window, name = provider.info.context_window, session.id or "not saved (--no-session)"
    name = f"{session.name} · {name}" if session.name else name
    used = f"{count(conversation.context_tokens)} of {count(window)} tokens"
    files = [str(path) for path in conversation.settings.loaded.files]
    sandbox, memory = conversation.agent.sandbox, conversation.config.memory
    kind = await asyncio.to_thread(sandbox.kind) if sandbox is not None else "off"
    instructions = await asyncio.to_thread(_list_instructions, conversation)
    rows = [
        ("version", f"kode {__version__}, Python {platform.python_version()}"),
        ("session", f"{name} · {plural(session.turns, 'turn')} · {used}"),
        ("folder", str(conversation.place.cwd)),
        *(("", f"also {folder}") for folder in conversation.config.add_dirs),
        ("model", f"{provider.model} ({provider.name})"),
        ("effort", effort_line(conversation)),
        ("mode", conversation.gate.state.mode),
        ("sandbox", f"on ({kind})" if kind not in ("off", "none", "unknown") else kind),
        ("memory", memory.system if memory.enabled else "off"),
        *zip_longest(["instructions"], instructions, fillvalue=""),
        *zip_longest(["config"], files or ["no file, all defaults"], fillvalue=""),
    ]
    lines = [(label, one_line(line)) for label, line in rows]
    state.screen.print(align_pairs(lines, state.screen.width))


def _list_instructions(conversation: "Conversation") -> list[str]:
    if not conversation.config.agents_files:
        return ["not read (--no-agents)"]
    instructions = read_instructions(conversation.place.home, conversation.place.cwd)
    lines = instructions.describe_files(conversation.place.cwd) or ["none; /init writes AGENTS.md"]
    return [*lines, *filter(None, [instructions.warning])]


async def show_context(state: PromptState, argument: str) -> None:
    """Shows what fills the window, by kind, as bars, and what could be freed."""
    conversation, parts = state.conversation, await state.conversation.window()
    used, size = conversation.context_tokens, conversation.agent.provider.info.context_window
    width = state.screen.width - 1
    head = f"{count(used)} of {count(size)} tokens used ({used / max(1, size):.0%})"
    rows = [*parts.items(), ("free", max(size - used, 0))]
    *filled, free = bars(rows, size, width)
    state.screen.print_painted(
        "\n".join([clip(head, width), *filled, state.screen.paint("dim", free)])
    )
    compacts_at = int(size * conversation.config.context.compact_at)
    how = "/compact does it now, /new starts fresh"
    state.screen.print(f"Compacts itself at {count(compacts_at)} tokens; {how}.", "dim")


async def show_cost(state: PromptState, argument: str) -> None:
    """Shows tokens and cost by model, for the last turn, this session, and today's sessions."""
    spending = await state.conversation.spending()
    state.screen.print(cost_table(spending, state.screen.width))


def cost_table(spending: "Mapping[str, Spending]", width: int) -> str:
    """Returns a table with a row per scope and model, and a total if a scope has several."""
    rows = []
    for scope, by_model in spending.items():
        is_only = len(by_model) == 1
        if not is_only:
            rows.append((TITLES[scope], _describe_spent(by_model.total)))
        for model, spent in by_model.items():
            before = f"{TITLES[scope]} · " if is_only else "  "
            name = clip(f"{before}{one_line(model)}", MAX_NAME_COLUMNS)
            rows.append((name, _describe_spent(spent)))
    unpriced = [one_line(name) for name, spent in spending["session"].items() if spent.unpriced]
    note = f"\nNo price known for {', '.join(unpriced)}: set `prices`." if unpriced else ""
    return align_pairs(rows, width) + note


def _describe_spent(spent: "Spent") -> str:
    usage = spent.usage
    cached = usage.cached_tokens / max(usage.input_tokens, 1)
    thinking = f" ({count(usage.thinking_tokens)} thinking)" if usage.thinking_tokens else ""
    sent = f"{count(usage.input_tokens)} in, {cached:.0%} cached"
    received = f"{count(usage.output_tokens)} out{thinking}"
    return f"{format_cost(spent)} · {sent} · {received} · {plural(spent.requests, 'request')}"


async def show_diff(state: PromptState, argument: str) -> None:
    """Shows this session's file changes, or those of files whose path contains the argument."""
    # In a thread: comparing long files takes a while, and a turn may be running.
    diffs = await asyncio.to_thread(state.conversation.diffs)
    diffs = [diff for diff in diffs if argument in diff.path]
    if not diffs:
        named = f" with {one_line(argument)!r} in its name" if argument else ""
        state.screen.print(f"No file{named} was changed by tools in this session.", "dim")
        return
    state.screen.print_painted(render_diffs(state.screen, diffs))


def render_diffs(screen: Screen, diffs: Sequence["FileDiff"]) -> str:
    """Returns one line per file, followed by their diffs, all painted."""
    from kode.cli.screen.diffs import paint_diff

    added, removed = (sum(diff.count(sign) for diff in diffs) for sign in "+-")
    head = screen.paint("bold", f"{plural(len(diffs), 'file')} changed, +{added} -{removed}")
    rows = [(one_line(it.path), f"+{it.count('+')} -{it.count('-')}") for it in diffs]
    painted = [paint_diff(screen, diff.text, headings=True) for diff in diffs]
    return "\n".join([head, align_pairs(rows, screen.width), "", *painted])


async def show_extensions(state: PromptState, argument: str) -> None:
    """Lists the extensions of one kind as this session uses them; without an argument, of every
    kind. Raises: UserError for an unknown kind."""
    conversation, screen = state.conversation, state.screen
    await conversation.start()
    assert conversation.catalog is not None
    kinds = (*NONE, "mcp")
    if argument and argument not in kinds:
        raise UserError(f"/extensions takes {', '.join(kinds)}, not {one_line(argument)!r}.")
    for kind in NONE:
        if argument in ("", kind):
            screen.print(kind, "bold")
            for line in lines_of(rows_of(conversation.catalog, kind), kind):
                screen.print(f"  {sanitize(line)}")
    if argument in ("", "mcp"):
        screen.print("MCP servers", "bold")
        _show_servers(state)


def _show_servers(state: PromptState) -> None:
    """Shows this session's MCP servers: their state, tools, and what is off."""
    extensions, screen = state.conversation.extensions, state.screen
    servers = list(extensions.servers.values()) if extensions is not None else []
    for server in servers:
        offers = f"{plural(len(server.definitions), 'tool')} ({server.entry.origin})"
        about = offers if server.runs else f"off: {server.fault or 'not started yet'}"
        screen.print(clip(f"  {one_line(visible(f'{server.name}  {about}'))}", screen.width))
        if server.held:
            names = ", ".join(map(visible, server.held))
            how = f"kode mcp approve {server.name}"
            screen.print(f"    off, since changed: {names} · {how}", "warning")
    if extensions is not None and extensions.untrusted:
        names = ", ".join(map(visible, extensions.untrusted))
        screen.print(f"  Not approved: {names} · kode extensions approve", "warning")
    if not servers:
        screen.print("  No MCP servers here. `kode mcp add NAME URL` configures one.")


async def switch_vi(state: PromptState, argument: str) -> None:
    """Toggles vi's keys, in later sessions too. Raises: KodeError."""
    from kode.config.load import store_value

    if state.editor is None:
        raise UserError("Here are no keys: `kode config set repl.vi_mode true` is for others.")
    is_vi = state.editor.switch_vi()
    path = store_value("repl.vi_mode", is_vi, "/vim")
    state.screen.print(
        f"Vi's keys are {'on: Esc, and i to type' if is_vi else 'off'} ({path}).", "dim"
    )


async def ask_beside(state: PromptState, argument: str) -> None:
    """Asks the model a question on the side. Raises: KodeError, UserError without a question."""
    question, task = state.pastes.unfold(argument), asyncio.current_task()
    if not question or task is None:
        raise UserError("/btw QUESTION asks something beside the conversation.")
    state.questions[task] = question
    try:
        answer = await state.conversation.answer_question(question)
    finally:
        del state.questions[task]
    state.renderer.show_aside(question, answer)


USAGE = "/bg kill ID stops one; all stop with kode."


async def list_or_kill(state: PromptState, argument: str) -> None:
    """Lists the background commands, ended ones included, with their output files; or kills one.
    Raises: UserError."""
    commands, screen = state.conversation.commands, state.screen
    match argument.split():
        case []:
            for command in commands.commands:
                screen.print(_format_background(command, screen.width))
                for line in filter(None, (one_line(command.last_line()), command.output_path)):
                    screen.print(f"     {line}", "dim")
            screen.print(USAGE if commands.commands else "No background commands.", "dim")
        case ["kill", name]:
            command = commands.find(name)
            stopped = "Stopped" if command.runs else "Ended already:"
            await commands.kill(command)
            screen.print(f"{stopped} {command.name}: {one_line(command.running.command)}", "dim")
        case _:
            raise UserError(f"/bg does not know {one_line(argument)!r}. {USAGE}")


async def leave(state: PromptState, argument: str) -> None:
    """Ends the REPL; asks first if background commands are running, which would end with kode."""
    screen = state.screen
    running = state.conversation.commands.list_running() if state.opened is not None else []
    if running:
        screen.print(f"Still running: {plural(len(running), 'background command')}", "warning")
        screen.print("\n".join(_format_background(command, screen.width) for command in running))
        answer = await screen.read_answer("Quit and stop what runs? [y/N] ")
        # End of input is a second Ctrl-D, which means yes.
        if answer is not None and answer.strip().lower() not in ("y", "yes"):
            return
    state.leave()


def _format_background(command: BackgroundCommand, width: int) -> str:
    """Describes a background command on one line: id, state, time and what runs."""
    seconds = time.monotonic() - command.running.since if command.runs else command.took_s
    status = "running" if command.runs else command.outcome
    text = f"{command.name}  {status} · {duration(seconds)} · {one_line(command.running.command)}"
    return clip(text, width)


FIRST = (
    SlashCommand("/help", "commands and keys", show_help, "[all or keys]", while_busy=True),
    SlashCommand("/new", "start a new session", start_new),
    SlashCommand("/resume", "resume another session", resume, "[NUMBER or ID]"),
    SlashCommand("/model", "list or switch models", use_model, "[NAME or PROVIDER/NAME]"),
    SlashCommand(
        "/permissions",
        "permission mode and saved approvals",
        manage_permissions,
        f"[{'|'.join((*MODES, *CHANGES))} ...]",
        while_busy=True,
    ),
    SlashCommand("/plan", "plan first, then approve", plan, f"[TASK|{'|'.join(PLAN_WORDS)}]"),
    SlashCommand("/memory", "show, search, review or undo memory", run_memory, "[COMMAND]"),
    SlashCommand("/status", "version, session, model, sandbox, memory, instructions", show_status),
    SlashCommand("/cost", "tokens and money: turn, session, today", show_cost, while_busy=True),
    SlashCommand("/compact", "summarize the conversation", compact, "[WHAT TO KEEP or undo]"),
    SlashCommand("/undo", "undo the last turn's file changes; repeat for earlier turns", undo),
    SlashCommand("/rewind", "rewind files or conversation", rewind, "[NUMBER or undo]"),
    SlashCommand("/diff", "show this session's changes", show_diff, "[FILE]", while_busy=True),
    SlashCommand("/extensions", "skills, commands, hooks, MCP servers", show_extensions, "[KIND]"),
    SlashCommand("/quit", "quit", leave, while_busy=True),
)
"""The commands that `/help` lists."""
FURTHER = (
    SlashCommand("/effort", "set how much the model thinks", use_effort, "[LEVEL]"),
    SlashCommand("/theme", "choose the colours", use_theme, "[NAME]", while_busy=True),
    SlashCommand("/vim", "turn vi's keys on or off", switch_vi, while_busy=True),
    SlashCommand("/init", "write or improve AGENTS.md", write_instructions, "[WISH]"),
    SlashCommand("/review", "review uncommitted changes, or a branch", review, "[BRANCH]"),
    SlashCommand("/remember", "remember a fact, as #FACT does", remember, "[env:] FACT"),
    SlashCommand("/btw", "ask beside the conversation", ask_beside, "QUESTION", while_busy=True),
    SlashCommand("/context", "what fills the context window", show_context, while_busy=True),
    SlashCommand("/redo", "redo the last /undo", redo),
    SlashCommand("/bg", "what runs in the background", list_or_kill, "[kill ID]", while_busy=True),
    SlashCommand("/rename", "name this session", rename, "NAME", while_busy=True),
    SlashCommand("/copy", "copy the last answer", copy, while_busy=True),
)
COMMANDS = {command.name: command for command in (*FIRST, *FURTHER)}
"""All commands, in the order in which a lone `/` offers them."""
