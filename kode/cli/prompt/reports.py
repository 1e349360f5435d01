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
from kode.cli.screen.lines import bars, clip, cost_text, count, explain, one_line
from kode.cli.screen.screen import Screen
from kode.errors import UserError
from kode.extensions.found_extensions import NONE, lines_of, rows_of
from kode.messages import plural
from kode.permissions.question import visible
from kode.plain_text import clean

if TYPE_CHECKING:
    from kode.conversation import Conversation
    from kode.session.spending import Spending, Spent
    from kode.undo.undo import FileDiff

TITLES = {"turn": "last turn", "session": "this session", "day": "today, all sessions"}
MAX_NAME_COLUMNS = 36
ABOUT_COLUMNS = 60  # beside a name, in 80 columns


async def show_status(state: PromptState, argument: str) -> None:
    """Version, session, folder, model, mode, sandbox, memory, instructions, config."""
    conversation = state.conversation
    session, provider = conversation.session, conversation.agent.provider
    window, name = provider.info.context_window, session.id or "not saved (--no-session)"
    used = f"{count(conversation.context_tokens)} of {count(window)} tokens"
    files = [str(path) for path in conversation.settings.loaded.files]
    sandbox, memory = conversation.agent.sandbox, conversation.config.memory
    kind = await asyncio.to_thread(sandbox.kind) if sandbox is not None else "off"
    rows: dict[str, list[str]] = {
        "version": [f"kode {__version__}, Python {platform.python_version()}"],
        "session": [f"{name} · {plural(session.turns, 'turn')} · {used}"],
        "folder": [
            str(conversation.place.cwd),
            *(f"also {it}" for it in conversation.config.add_dirs),
        ],
        "model": [f"{provider.model} ({provider.name}{_address(conversation)})"],
        "effort": [effort_line(conversation)],
        "mode": [conversation.gate.mode],
        "sandbox": [f"on ({kind})" if kind not in ("off", "none", "unknown") else kind],
        "memory": [memory.system if memory.enabled else "off"],
        "instructions": await asyncio.to_thread(_instructions, conversation),
        "config": files or ["no file, all defaults"],
    }
    pairs = [
        (label if number == 0 else "", one_line(line))
        for label, lines in rows.items()
        for number, line in enumerate(lines)
    ]
    state.screen.print(explain(pairs, state.screen.width))


def _address(conversation: "Conversation") -> str:
    from kode.config.choice import resolve_provider

    with contextlib.suppress(UserError):
        url = resolve_provider(conversation.config, os.environ).base_url
        return f", {url}" if url else ""
    return ""


def _instructions(conversation: "Conversation") -> list[str]:
    from kode.extensions.review import read_instructions

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
    head = f"{count(used)} of {count(size)} tokens are used ({used / max(1, size):.0%})."
    rows = [*parts.items(), ("free", max(size - used, 0))]
    state.screen.print("\n".join([clip(head, width), *bars(rows, size, width)]))
    compacts_at = int(size * conversation.config.context.compact_at)
    text = f"Compacts automatically at {count(compacts_at)} tokens, /compact does it now; "
    text += "/new starts over with only system prompt, tools and memory."
    state.screen.print(text, "dim")


async def show_cost(state: PromptState, argument: str) -> None:
    """Shows tokens and money by model: of the last turn, the session, the day."""
    spending = await state.conversation.spending()
    state.screen.print(cost_table(spending, state.screen.width))


def cost_table(spending: "Mapping[str, Spending]", width: int) -> str:
    """A row per model, and a total if there are several."""
    rows = []
    for scope, by_model in spending.items():
        is_only = len(by_model) == 1
        if not is_only:
            rows.append((TITLES[scope], _describe_spent(by_model.total)))
        for model, spent in by_model.items():
            before = f"{TITLES[scope]} · " if is_only else "  "
            rows.append(
                (clip(f"{before}{one_line(model)}", MAX_NAME_COLUMNS), _describe_spent(spent))
            )
    unpriced = [one_line(name) for name, spent in spending["session"].items() if spent.unpriced]
    note = f"\nNo price known for {', '.join(unpriced)}: set `prices`." if unpriced else ""
    return explain(rows, width) + note


def _describe_spent(spent: "Spent") -> str:
    usage = spent.usage
    cached = usage.cached_tokens / max(usage.input_tokens, 1)
    thinking = f" ({count(usage.thinking_tokens)} thinking)" if usage.thinking_tokens else ""
    cost = cost_text(spent.cost_usd, spent.unpriced == spent.requests, spent.unpriced > 0)
    sent = f"{count(usage.input_tokens)} in, {cached:.0%} cached"
    received = f"{count(usage.output_tokens)} out{thinking}"
    return f"{cost} · {sent} · {received} · {plural(spent.requests, 'request')}"


async def show_diff(state: PromptState, argument: str) -> None:
    """Shows this session's file changes in colour, or those of the files that are named so.
    Anything longer than the screen goes to the pager."""
    # In a thread: comparing long files takes a while, and a turn may be running.
    diffs = await asyncio.to_thread(state.conversation.diffs)
    diffs = [diff for diff in diffs if argument in diff.path]
    if not diffs:
        named = f" with {one_line(argument)!r} in its name" if argument else ""
        state.screen.print(f"No file{named} was changed by tools in this session.", "dim")
        return
    text = render_diffs(state.screen, diffs)
    if not (state.is_long(text) and await state.page(text)):
        state.screen.print_painted(text)


def render_diffs(screen: Screen, diffs: Sequence["FileDiff"]) -> str:
    """One line per file, then their diffs; painted."""
    from kode.cli.screen.diffs import painted_diff

    added, removed = (sum(diff.count(sign) for diff in diffs) for sign in "+-")
    head = screen.paint("bold", f"{plural(len(diffs), 'file')} changed, +{added} -{removed}")
    rows = [(one_line(it.path), f"+{it.count('+')} -{it.count('-')}") for it in diffs]
    painted = [painted_diff(screen, diff.text, headings=True) for diff in diffs]
    return "\n".join([head, explain(rows, screen.width), "", *painted])


async def show_extensions(state: PromptState, argument: str) -> None:
    """Lists one kind, as this session uses it; without a word, all. Raises: UserError for another
    word."""
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
    commands = {f"/{name}": about for name, about in state.opened.list_offered().items()}
    commands |= extensions.commands() if extensions is not None else {}
    return {name: clip(one_line(about), ABOUT_COLUMNS) for name, about in commands.items()}


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
