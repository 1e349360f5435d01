"""The choices that a client can offer: the permission mode, the model, how much it thinks, and the
commands that a message may begin with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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

from kode.plugin import EFFORTS, MODE_CALLED, MODE_MEANS, Effort, PermissionMode, UserError

ConfigOption = SessionConfigOptionSelect | SessionConfigOptionBoolean

MODE, MODEL, EFFORT = "mode", "model", "effort"
"""The ids of the options."""
DEFAULT = "default"
"""The effort that is left to kode and the model."""
NAMED_MODELS = 8  # a sentence that can be read


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What is chosen in a session, and what can be."""

    mode: PermissionMode
    configured_mode: PermissionMode
    """Of the person's settings."""
    model: str
    models: tuple[str, ...]
    effort: Effort | None
    efforts: tuple[Effort, ...]
    """Those of the model; () if kode knows of none."""

    @property
    def modes(self) -> tuple[PermissionMode, ...]:
        """The modes on offer: `full`, which asks nothing, is no click away unless the person has
        set it."""
        set_by_person = (self.mode, self.configured_mode)
        return tuple(mode for mode in MODE_MEANS if mode != "full" or mode in set_by_person)

    def mode_named(self, name: str) -> PermissionMode:
        """Raises: UserError for a mode that is not on offer."""
        mode = MODE_CALLED.get(name)
        if mode in self.modes:
            return mode
        if mode == "full":
            raise UserError(
                "Mode full is not on offer here. To have it, set `permissions.mode` in your config "
                "or start `kode acp --permission-mode full`."
            )
        raise UserError(f"There is no mode {name[:40]!r}. The modes are: {', '.join(self.modes)}.")

    def model_named(self, name: str) -> str:
        """Raises: UserError for a model that is not on offer."""
        if name in (self.model, *self.models):
            return name
        named = ", ".join(self.models[:NAMED_MODELS])
        raise UserError(f"There is no model {name[:80]!r} here. The models are: {named}.")


def effort_named(name: str) -> Effort | None:
    """Raises: UserError for a word that is no level."""
    if name == DEFAULT:
        return None
    if name not in EFFORTS:
        levels = ", ".join((DEFAULT, *EFFORTS))
        raise UserError(f"There is no effort {name[:40]!r}. The levels are: {levels}.")
    return EFFORTS[EFFORTS.index(name)]


def modes(choices: Choices) -> SessionModeState:
    """The modes, for clients without support for options."""
    return SessionModeState(
        current_mode_id=choices.mode,
        available_modes=[
            SessionMode(id=mode, name=mode, description=MODE_MEANS[mode]) for mode in choices.modes
        ],
    )


def config_options(choices: Choices) -> list[ConfigOption]:
    """The choices as options; what is chosen is always among them."""
    mode = SessionConfigOptionSelect(
        type="select",
        id=MODE,
        name="Permission mode",
        description="What kode may do without asking.",
        category="mode",
        current_value=choices.mode,
        options=[
            SessionConfigSelectOption(value=one, name=one, description=MODE_MEANS[one])
            for one in choices.modes
        ],
    )
    model = SessionConfigOptionSelect(
        type="select",
        id=MODEL,
        name="Model",
        category="model",
        current_value=choices.model,
        options=_named((choices.model, *choices.models)),
    )
    if not choices.efforts:
        return [mode, model]
    effort = choices.effort or DEFAULT
    levels = SessionConfigOptionSelect(
        type="select",
        id=EFFORT,
        name="Effort",
        description="How much the model thinks.",
        category="thought_level",
        current_value=effort,
        options=_named((DEFAULT, *choices.efforts, effort)),
    )
    return [mode, model, levels]


def _named(values: Iterable[str]) -> list[SessionConfigSelectOption]:
    return [SessionConfigSelectOption(value=one, name=one) for one in dict.fromkeys(values)]


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
