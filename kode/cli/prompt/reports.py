"""What the session has used and changed, shown: `/status`, `/context`, `/cost`, `/diff`,
`/extensions`."""

import asyncio
import contextlib
import os
import platform
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kode import __version__
from kode.cli.prompt.pickers import effort_line
from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import (
    bars,
    cell_width,
    clip,
    cost_text,
    count,
    explain,
    fit_table,
    one_line,
)
from kode.cli.screen.screen import Screen
from kode.errors import KodeError, UserError
from kode.extensions.found_extensions import NONE, lines_of, rows_of
from kode.messages import plural
from kode.plain_text import clean

if TYPE_CHECKING:
    from kode.conversation import Conversation
    from kode.extensions.mcp_server import McpServer
    from kode.session.spending import Spending, Spent
    from kode.undo.undo import FileDiff


async def show_status(state: PromptState, argument: str) -> None:
    """Version, session, folder, model, mode, sandbox, memory, instructions, config."""
    conversation = state.conversation
    session, provider = conversation.session, conversation.agent.provider
    window, name = provider.info.context_window, session.id or "not saved (--no-session)"
    used = f"{count(conversation.context_tokens)} of {count(window)} tokens"
    rows = [
        ("version", f"kode {__version__}, Python {platform.python_version()}"),
        ("session", f"{name} · {plural(session.turns, 'turn')} · {used}"),
        ("folder", str(conversation.place.cwd)),
        *(("", f"also {folder}") for folder in conversation.config.add_dirs),
        ("model", f"{provider.model} ({provider.name}{_address(conversation)})"),
        ("effort", effort_line(conversation)),
        ("mode", conversation.gate.mode),
        ("sandbox", await asyncio.to_thread(_sandbox, conversation)),
        ("memory", await _memory(conversation)),
        *_label_lines("instructions", await asyncio.to_thread(_instructions, conversation)),
        *_label_lines(
            "config",
            [str(path) for path in conversation.settings.loaded.files] or ["no file, all defaults"],
        ),
    ]
    state.screen.print(explain([(name, one_line(what)) for name, what in rows], state.screen.width))


def _label_lines(name: str, lines: list[str]) -> list[tuple[str, str]]:
    return [(name if number == 0 else "", line) for number, line in enumerate(lines)]


def _address(conversation: "Conversation") -> str:
    from kode.config.choice import resolve_provider

    with contextlib.suppress(UserError):
        url = resolve_provider(conversation.config, os.environ).base_url
        return f", {url}" if url else ""
    return ""


def _sandbox(conversation: "Conversation") -> str:
    sandbox = conversation.agent.sandbox
    if sandbox is None:
        return "off (`sandbox.enabled`): only plain reading commands run without asking"
    kind = sandbox.kind()
    if kind == "unknown":
        return "not known yet: its self-test ran out of time, and the next command tries again"
    if kind == "none":
        return f"none ({sandbox.support().why.rstrip('.')})"
    copy = ", on a copy of the project" if kind == "layered" else ""
    return f"on: commands you have not approved run in it{copy}"


async def _memory(conversation: "Conversation") -> str:
    if not conversation.config.memory.enabled:
        return "off"
    try:
        status = await conversation.memory_command(["status"])
    except KodeError as error:
        return str(error)
    return f"{conversation.config.memory.system}: " + "; ".join(status.text.splitlines()[2:4])


def _instructions(conversation: "Conversation") -> list[str]:
    from kode.extensions.review import read_instructions
    from kode.prompts import INSTRUCTIONS_CUT

    if not conversation.config.agents_files:
        return ["not read (--no-agents)"]
    project_instructions = read_instructions(conversation.place.home, conversation.place.cwd)
    lines = project_instructions.described(conversation.place.cwd) or [
        "none; /init writes AGENTS.md"
    ]
    section, opening = project_instructions.section, conversation.context.opening
    cut = section[: conversation.agent.provider.info.context_window] + INSTRUCTIONS_CUT
    if opening and opening.get("instructions", "") not in (section, cut):
        lines.append("changed since this session read them; /new reads them again")
    return lines + ([project_instructions.warning] if project_instructions.warning else [])


MAX_NAME_COLUMNS = 36
"""Maximum width for the name of a row."""
TITLES = {"turn": "last turn", "session": "this session", "day": "today, all sessions"}


async def show_context(state: PromptState, argument: str) -> None:
    """Shows what fills the window, by kind, as bars, and what could be freed."""
    conversation, parts = state.conversation, await state.conversation.window()
    used, size = conversation.context_tokens, conversation.agent.provider.info.context_window
    width = state.screen.width - 1
    head = f"{count(used)} of {count(size)} tokens are used ({used / max(1, size):.0%})."
    rows = [*parts.items(), ("free", max(size - used, 0))]
    for line in [clip(head, width), *bars(rows, size, width)]:
        state.screen.print(line)
    compacts_at = int(size * conversation.config.context.compact_at)
    text = f"Compacts automatically at {count(compacts_at)} tokens, /compact does it now; "
    text += "/new starts over with only system prompt, tools and memory."
    state.screen.print(text, "dim")


async def show_cost(state: PromptState, argument: str) -> None:
    """Shows tokens and money by model: of the last turn, the session, the day."""
    spending = await state.conversation.spending()
    for line in cost_lines(spending, state.screen.width - 1):
        state.screen.print(line)


def cost_lines(spending: "dict[str, Spending]", width: int) -> list[str]:
    """A table: a row per model, and a total if there are several."""
    rows: list[tuple[str, ...]] = [("", "cost", "in", "cached", "out", "thinking", "requests")]
    for scope, by_model in spending.items():
        title = TITLES[scope]
        if len(by_model) == 1:
            ((model, spent),) = by_model.items()
            rows.append(_cost_row(f"{title} · {one_line(model)}", spent))
            continue
        rows.append(_cost_row(title, by_model.total))
        rows += [_cost_row(f"  {one_line(model)}", spent) for model, spent in by_model.items()]
    lines = fit_table(rows, width, right=range(1, len(rows[0])))
    unpriced = [m for m, spent in spending["session"].items() if spent.unpriced]
    if unpriced:
        names_shown = ", ".join(map(one_line, unpriced))
        lines.append(f"Not counted: {names_shown}, whose price is unknown (`prices` sets it).")
    return lines


def _cost_row(name: str, spent: "Spent") -> tuple[str, ...]:
    usage = spent.usage
    return (
        clip(name, MAX_NAME_COLUMNS),
        cost_text(spent.cost_usd, spent.unpriced == spent.requests, spent.unpriced > 0),
        count(usage.input_tokens),
        f"{usage.cached_tokens / usage.input_tokens:.0%}" if usage.input_tokens else "-",
        count(usage.output_tokens),
        count(usage.thinking_tokens),
        str(spent.requests),
    )


async def show_diff(state: PromptState, argument: str) -> None:
    """Shows this session's file changes in colour; `/diff FILE` shows one. Anything longer than the
    screen goes to the pager."""
    # In a thread: comparing long files takes a while, and a turn may be running.
    diffs = await asyncio.to_thread(state.conversation.diffs)
    if not diffs:
        state.screen.print("No files changed through tools in this session.", "dim")
        return
    if argument:
        diffs = [diff for diff in diffs if argument in diff.path]
    if not diffs:
        state.screen.print(f"No changed file has {one_line(argument)!r} in its name.", "warning")
        return
    text = render_diffs(state.screen, diffs)
    if not (state.is_long(text) and await state.page(text)):
        state.screen.print_painted(text)


def render_diffs(screen: Screen, diffs: Sequence["FileDiff"]) -> str:
    """One line per file, then their diffs; painted."""
    from kode.cli.screen.diffs import painted_diff

    added, removed = (sum(diff.count(sign) for diff in diffs) for sign in "+-")
    lines = [screen.paint("bold", f"{plural(len(diffs), 'file')} changed, +{added} -{removed}")]
    width = min(max(cell_width(one_line(file_diff.path)) for file_diff in diffs), 60)
    for diff in diffs:
        name = one_line(diff.path)
        pad = " " * max(width - cell_width(name), 0)
        lines.append(f"  {name}{pad}  +{diff.count('+')} -{diff.count('-')}")
    lines += ["", *(painted_diff(screen, file_diff.text, headings=True) for file_diff in diffs)]
    return "\n".join(lines)


ABOUT_COLUMNS = 60  # beside a name, in 80 columns


async def show_extensions(state: PromptState, argument: str) -> None:
    """Lists one kind, as this session uses it; without a word, all. Raises: UserError for another
    word."""
    conversation, screen = state.conversation, state.screen
    await conversation.start()
    assert conversation.catalog is not None
    if argument and argument not in (*NONE, "mcp"):
        kinds = ", ".join((*NONE, "mcp"))
        raise UserError(f"/extensions takes {kinds}, not {one_line(argument)!r}.")
    for kind in NONE:
        if argument in ("", kind):
            screen.print(kind, "bold")
            for line in lines_of(rows_of(conversation.catalog, kind), kind):
                screen.print(f"  {clean(line)}")
    if argument in ("", "mcp"):
        screen.print("MCP servers", "bold")
        _show_servers(state)


def extension_commands(state: PromptState) -> Mapping[str, str]:
    """The commands, skills and server prompts that may be typed now, and plug-ins' commands → what
    each does. Reads files before the first turn, so call it in a thread."""
    if state.opened is None:
        return {}
    extensions = state.opened.extensions
    commands = {f"/{name}": about for name, about in state.opened.offered().items()}
    commands |= extensions.commands() if extensions is not None else {}
    return {name: clip(one_line(about), ABOUT_COLUMNS) for name, about in commands.items()}


def _show_servers(state: PromptState) -> None:
    """Shows this session's MCP servers: their state, tools, and what is off."""
    from kode.permissions.question import visible

    extensions, screen = state.conversation.extensions, state.screen
    servers = list(extensions.servers.values()) if extensions is not None else []
    for server in servers:
        screen.print(clip(f"  {one_line(visible(_describe_server(server)))}", screen.width))
        if server.held:
            held = ", ".join(map(visible, server.held))
            screen.print(
                f"    off, since changed: {held} · kode mcp approve {server.name}", "warning"
            )
    if extensions is not None and extensions.untrusted:
        names = ", ".join(map(visible, extensions.untrusted))
        screen.print(f"  Not approved: {names} · kode extensions approve", "warning")
    if not servers:
        screen.print("  No MCP servers here. `kode mcp add NAME URL` configures one.")


def _describe_server(server: "McpServer") -> str:
    if not server.runs:
        return f"{server.name}  off: {server.fault or 'not started yet'}"
    offers = [plural(len(server.definitions), "tool")]
    offers += [plural(len(server.prompts), "prompt")] if server.prompts else []
    return f"{server.name}  {', '.join(offers)}  ({server.entry.origin})"
