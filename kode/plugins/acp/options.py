"""What a client can choose: the permission mode, the model, how much it thinks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from acp import schema

from kode.plugin import Conversation, UserError

ConfigOption = schema.SessionConfigOptionSelect

Category = Literal["mode", "model", "thought_level"]

MODE, MODEL, EFFORT = "mode", "model", "effort"
"""The ids of the options."""
DEFAULT = "default"
"""The effort that is left to kode and the model."""
MAX_NAMED = 8  # a sentence that can be read


def config_options(conversation: Conversation, models: Iterable[str]) -> list[ConfigOption]:
    """The choices as options; what is chosen is always among them."""
    model, effort = conversation.agent.provider.model, conversation.agent.effort or DEFAULT
    modes: dict[str, str | None] = {**conversation.modes}
    efforts = conversation.agent.provider.info.efforts
    options = [
        _option(MODE, "Permission mode", "mode", conversation.gate.mode, modes),
        _option(MODEL, "Model", "model", model, dict.fromkeys((model, *models))),
    ]
    if efforts:
        levels = dict.fromkeys((DEFAULT, *efforts, effort))
        options.append(_option(EFFORT, "Effort", "thought_level", effort, levels))
    return options


def _option(
    option_id: str, name: str, category: Category, current: str, values: Mapping[str, str | None]
) -> ConfigOption:
    return ConfigOption(
        type="select",
        id=option_id,
        name=name,
        category=category,
        current_value=current,
        options=[
            schema.SessionConfigSelectOption(value=value, name=value, description=what)
            for value, what in values.items()
        ],
    )


def values_of(option: ConfigOption) -> Mapping[str, str | None]:
    """The values on offer → what each means."""
    return {
        choice.value: choice.description
        for choice in option.options
        if isinstance(choice, schema.SessionConfigSelectOption)
    }


def modes(options: Sequence[ConfigOption]) -> schema.SessionModeState:
    """The modes, for clients without support for options."""
    listed = values_of(options[0]).items()
    return schema.SessionModeState(
        current_mode_id=str(options[0].current_value),
        available_modes=[schema.SessionMode(id=m, name=m, description=what) for m, what in listed],
    )


def check_choice(options: Sequence[ConfigOption], option_id: str, value: str) -> None:
    """Raises: UserError for what is not on offer."""
    option = next((option for option in options if option.id == option_id), None)
    if option is None:
        names = f"there are {MODE}, {MODEL} and {EFFORT}"
        raise UserError(f"There is no option {option_id[:40]!r}; {names}.")
    values = values_of(option)
    if value not in values:
        named = ", ".join([*values][:MAX_NAMED])
        is_limited = option_id == MODE and "full" not in values
        more = " `kode acp --permission-mode full` offers full." if is_limited else ""
        raise UserError(
            f"There is no {option_id} {value[:80]!r} here. The {option_id}s are: {named}.{more}"
        )
