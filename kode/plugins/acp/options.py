"""The choices that a client can offer: the permission mode, the model, and the commands that a
message may begin with."""

from collections.abc import Mapping, Sequence

from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
    UnstructuredCommandInput,
)

from kode.plugin.contracts import MODE_CALLED, MODE_MEANS, PermissionMode
from kode.plugin.errors import UserError

ConfigOption = SessionConfigOptionSelect | SessionConfigOptionBoolean

MODE, MODEL = "mode", "model"
"""The ids of the options."""


def mode_named(name: str) -> PermissionMode:
    """Raises: UserError for an unknown mode."""
    if name not in MODE_CALLED:
        raise UserError(f"There is no mode {name[:40]!r}. The modes are: {', '.join(MODE_MEANS)}.")
    return MODE_CALLED[name]


def modes(current: PermissionMode) -> SessionModeState:
    """The modes, for clients without support for options."""
    return SessionModeState(
        current_mode_id=current,
        available_modes=[
            SessionMode(id=mode, name=mode, description=what) for mode, what in MODE_MEANS.items()
        ],
    )


def config_options(mode: PermissionMode, model: str, models: Sequence[str]) -> list[ConfigOption]:
    """Mode and model as options; the current model is always among them."""
    return [
        SessionConfigOptionSelect(
            type="select",
            id=MODE,
            name="Permission mode",
            description="What kode may do without asking.",
            category="mode",
            current_value=mode,
            options=[
                SessionConfigSelectOption(value=one, name=one, description=what)
                for one, what in MODE_MEANS.items()
            ],
        ),
        SessionConfigOptionSelect(
            type="select",
            id=MODEL,
            name="Model",
            category="model",
            current_value=model,
            options=[
                SessionConfigSelectOption(value=one, name=one)
                for one in dict.fromkeys((model, *models))
            ],
        ),
    ]


def available_commands(commands: Mapping[str, tuple[str, str]]) -> AvailableCommandsUpdate:
    """`commands`: name without `/` → (what it does, a hint at what may follow it)."""
    return AvailableCommandsUpdate(
        session_update="available_commands_update",
        available_commands=[
            AvailableCommand(
                name=name,
                description=what,
                input=AvailableCommandInput(UnstructuredCommandInput(hint=hint)) if hint else None,
            )
            for name, (what, hint) in commands.items()
        ],
    )
