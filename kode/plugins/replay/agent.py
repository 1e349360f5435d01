"""What the agent of a replay is made of: the settings and tools of the record, with changes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kode.plugin import Config, models
from kode.plugin import builtin_tools as BUILTIN
from kode.plugin.contracts import ModelInfo, Tool, ToolSpec
from kode.plugin.entries import AnyEntry, MessageEntry
from kode.plugin.messages import Text, Usage, section_of
from kode.plugins.replay.answers import tool_of
from kode.plugins.replay.played import Live
from kode.plugins.replay.recording import PastTurn, Recording

MANY_STEPS = 1_000_000
"""The record determines when a turn ends."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What to change compared with the recording."""

    append_system: str = ""
    without_memory: bool = False
    network: bool = False
    needs_sandbox: bool = False
    """Whether a command judges what a live model left."""
    live: Live | None = None


def tools_of(recording: Recording, turn: PastTurn) -> Sequence[Tool]:
    """The tools of this kode, and those that only the record knows, in the recorded order."""
    own = {tool.name: tool for tool in BUILTIN}
    begun = recording.beginning(turn) if recording.begins_process(turn) else None
    specs = [ToolSpec(**tool) for tool in begun.tools] if begun is not None else []
    return [own.get(spec.name) or tool_of(spec) for spec in specs] or BUILTIN


def skills_of(prompt: AnyEntry) -> str:
    """The list of skills that was sent with a message; "" if none was."""
    assert isinstance(prompt, MessageEntry)
    texts = (part for part in prompt.parts if isinstance(part, Text))
    return next((part.text for part in texts if section_of(part) == "skills"), "")


def cost_of(
    price: Callable[[Usage], float | None], live: Live | None
) -> Callable[[Usage], float | None]:
    """Recorded replies cost nothing again."""
    return lambda usage: price(usage) if live is not None and live.begun else 0.0


def settings_of(config: Config, recording: Recording, changes: Changes) -> Config:
    """The person's settings, overridden by the record, then by the changes."""
    begun = recording.beginning()
    appended = begun.texts.get("appended", "") if begun is not None else ""
    modes = [turn.end.permission_mode for turn in recording.turns if turn.end is not None]
    mode = next((mode for mode in modes if mode), config.permissions.mode)
    own = {} if changes.live is not None else {"provider": "scripted", "max_budget_usd": None}
    steps = recording.steps() + config.max_steps if changes.live is not None else MANY_STEPS
    return config.model_copy(
        update={
            "max_steps": steps,
            "timeout_s": None if changes.live is None else config.timeout_s,
            "append_system": "\n\n".join(filter(None, (appended, changes.append_system))),
            "add_dirs": (),
            "permissions": config.permissions.model_copy(update={"mode": mode}),
            "sandbox": config.sandbox.model_copy(update={"network": changes.network}),
            **own,
        }
    )


def info_now(config: Config, recording: Recording) -> ModelInfo:
    """The recorded model's figures, with the person's overrides."""
    model, window = recording.header.model, config.context.window
    return models.info_of(model, {} if window is None else {model: {"context_window": window}})
