"""Shows the state of this session: `/status`, `/config`, `/doctor`, `/login`."""

import asyncio
import os
import platform
import sys
from typing import TYPE_CHECKING

from kode import __version__, paths
from kode.cli.prompt.effort import effort_lines
from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import clean, count, explain, one_line
from kode.errors import KodeError, UserError
from kode.messages import columns, plural
from kode.programs import start_program

if TYPE_CHECKING:
    from kode.conversation import Conversation

CHECKING_TAKES_S = 60.0  # a person has given up on `/doctor` by then


async def show_status(state: PromptState, argument: str) -> None:
    """Version, session, folder, model, mode, sandbox, memory, instructions, config."""
    conversation = state.conversation
    now = conversation.status()
    session = now.session_id or "not saved (--no-session)"
    used = f"{count(now.context_tokens)} of {count(now.context_window)} tokens"
    rows = [
        ("version", f"kode {__version__}, Python {platform.python_version()}"),
        ("session", f"{session} · {plural(now.turns, 'turn')} · {used}"),
        ("folder", str(conversation.cwd)),
        *(("", f"also {folder}") for folder in conversation.config.add_dirs),
        ("model", f"{now.model} ({now.provider}{_address(conversation)})"),
        ("effort", " ".join(effort_lines(conversation.agent.effort, conversation.agent.provider))),
        ("mode", now.mode),
        ("sandbox", await asyncio.to_thread(_sandbox, conversation)),
        ("memory", await _memory(conversation)),
        *_named("instructions", await asyncio.to_thread(_instructions, conversation)),
        *_named(
            "config", [str(path) for path in conversation.loaded.files] or ["no file, all defaults"]
        ),
    ]
    state.screen.print(explain([(name, one_line(what)) for name, what in rows], state.screen.width))


def _named(name: str, lines: list[str]) -> list[tuple[str, str]]:
    return [(name if number == 0 else "", line) for number, line in enumerate(lines)]


def _address(conversation: "Conversation") -> str:
    from kode.providers.offered import base_url_of

    return f", {url}" if (url := base_url_of(conversation.config)) else ""


def _sandbox(conversation: "Conversation") -> str:
    sandbox = conversation.agent.sandbox
    if sandbox is None:
        return "off (`sandbox.enabled`): only plain reading commands run without asking"
    if not sandbox.holds():
        return f"none ({sandbox.why_missing().rstrip('.')})"
    copy = ", on a copy of the project" if sandbox.layered() else ""
    return f"on: commands you have not approved run in it{copy}"


async def _memory(conversation: "Conversation") -> str:
    if not conversation.config.memory.enabled:
        return "off"
    try:
        status = await conversation.memory_command(["status"])
    except KodeError as error:
        return str(error)
    return f"{conversation.config.memory.system}: " + "; ".join(status.line.splitlines()[2:4])


def _instructions(conversation: "Conversation") -> list[str]:
    from kode.extensions.instructions import read_instructions

    if not conversation.config.agents_files:
        return ["not read (--no-agents)"]
    project_instructions = read_instructions(conversation.home, conversation.cwd)
    lines = project_instructions.described(conversation.cwd) or ["none; /init writes AGENTS.md"]
    if (
        project_instructions.section
        and conversation.context.system
        and project_instructions.section not in conversation.context.system
    ):
        lines.append("changed since this session read them; /new reads them again")
    return lines + ([project_instructions.warning] if project_instructions.warning else [])


async def show_config(state: PromptState, argument: str) -> None:
    """Shows this session's settings like `kode config show`; /config PART shows a part of them.
    Raises: UserError for an unknown key."""
    from kode.cli.screen.output import settings_rows

    loaded = state.conversation.loaded
    lines = [clean(line) for line in columns(settings_rows(loaded, argument))]
    if not lines:
        raise UserError(f"No key starts with {one_line(argument)!r}. /config shows all.")
    files = ", ".join(map(str, loaded.files)) or str(paths.config_file(state.conversation.home))
    lines += ["", f"Values without a source are defaults. To change one, edit {files}"]
    text = "\n".join(lines)
    if not (state.is_long(text) and await state.page(text)):
        state.screen.print(text)


async def run_doctor(state: PromptState, argument: str) -> None:
    """Runs `kode doctor` in a separate process: its checks may take long, and can be stopped.
    Raises: UserError if they take too long."""
    process = await start_program(
        *(sys.executable, "-m", "kode", "doctor"),
        cwd=state.conversation.cwd,
        env={**os.environ, "COLUMNS": str(state.screen.width)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(CHECKING_TAKES_S):
            async for line in process.stdout:
                state.screen.print(line.decode("utf-8", "replace").rstrip("\n"))
            await process.wait()
    except TimeoutError as error:
        raise UserError("The checks took too long. Run `kode doctor` in a shell.") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def say_how_to_log_in(state: PromptState, argument: str) -> None:
    """Shows where the key comes from, and how to use another."""
    from kode.registry import provider_row

    conversation = state.conversation
    provider = conversation.status().provider
    row = provider_row(provider)
    variable = row.key_variable if row is not None else ""
    origins = conversation.loaded.origins
    if origins.get("api_key", "default") != "default":
        key = f"the key of {origins['api_key']}"
    elif origins.get("providers", "default") != "default":
        key = f"the key of {origins['providers']}"
    else:
        key = f"the key in {variable}" if os.environ.get(variable) else "no key"
    state.screen.print(
        f"kode uses {provider} with {key}. To set up another: quit, then run `kode init --force`."
    )
