"""Shows the state of this session: `/status`."""

import asyncio
import os
import platform
import sys
from typing import TYPE_CHECKING

from kode import __version__
from kode.cli.prompt.effort import effort_lines
from kode.cli.prompt.state import PromptState
from kode.cli.screen.lines import count, explain, one_line
from kode.errors import KodeError, UserError
from kode.messages import plural
from kode.programs import start_program

if TYPE_CHECKING:
    from kode.conversation import Conversation

TAKES_S = 60.0  # a person has given up on a command by then


async def show_status(state: PromptState, argument: str) -> None:
    """Version, session, folder, model, mode, sandbox, memory, instructions, config."""
    conversation = state.conversation
    now = conversation.status()
    session = now.session_id or "not saved (--no-session)"
    used = f"{count(now.context_tokens)} of {count(now.context_window)} tokens"
    rows = [
        ("version", f"kode {__version__}, Python {platform.python_version()}"),
        ("session", f"{session} · {plural(now.turns, 'turn')} · {used}"),
        ("folder", str(conversation.place.cwd)),
        *(("", f"also {folder}") for folder in conversation.config.add_dirs),
        ("model", f"{now.model} ({now.provider}{_address(conversation)})"),
        ("effort", " ".join(effort_lines(conversation.agent.effort, conversation.agent.provider))),
        ("mode", now.mode),
        ("sandbox", await asyncio.to_thread(_sandbox, conversation)),
        ("memory", await _memory(conversation)),
        *_named("instructions", await asyncio.to_thread(_instructions, conversation)),
        *_named(
            "config",
            [str(path) for path in conversation.settings.loaded.files] or ["no file, all defaults"],
        ),
    ]
    state.screen.print(explain([(name, one_line(what)) for name, what in rows], state.screen.width))


def _named(name: str, lines: list[str]) -> list[tuple[str, str]]:
    return [(name if number == 0 else "", line) for number, line in enumerate(lines)]


def _address(conversation: "Conversation") -> str:
    from kode.providers.listing import base_url_of

    return f", {url}" if (url := base_url_of(conversation.config)) else ""


def _sandbox(conversation: "Conversation") -> str:
    sandbox = conversation.agent.sandbox
    if sandbox is None:
        return "off (`sandbox.enabled`): only plain reading commands run without asking"
    kind = sandbox.kind()
    if kind == "unknown":
        return "not known yet: its self-test ran out of time, and the next command tries again"
    if kind == "none":
        return f"none ({sandbox.why_missing().rstrip('.')})"
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
    from kode.extensions.instructions import read_instructions
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


async def run_kode(state: PromptState, *argv: str) -> None:
    """Runs a command of kode in a separate process: it may take long, and can be stopped. Raises:
    UserError if it takes too long."""
    process = await start_program(
        *(sys.executable, "-m", "kode", *argv),
        cwd=state.conversation.place.cwd,
        env={**os.environ, "COLUMNS": str(state.screen.width)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(TAKES_S):
            async for line in process.stdout:
                state.screen.print(line.decode("utf-8", "replace").rstrip("\n"))
            await process.wait()
    except TimeoutError as error:
        command = " ".join(argv)
        raise UserError(f"It took too long. Run `kode {command}` in a shell.") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
