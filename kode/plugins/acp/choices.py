"""What a person decides through a client: the permission mode, the model and its effort; kode's own
slash commands; and the answers to questions for permission and about a plan, where no answer means
no. Commands and skills from files, and prompts of MCP servers, are handled by the conversation
instead."""

import shlex
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, cast

from acp import RequestError, schema
from acp.helpers import update_available_commands
from acp.interfaces import Client
from acp.schema import AvailableCommand, AvailableCommandInput, UnstructuredCommandInput

from kode.plugin import Answer, Conversation, PermissionMode, Question, UserError, visible
from kode.plugins.acp.updates import ShownCall, Update, text_content

ConfigOption = schema.SessionConfigOptionSelect

Category = Literal["mode", "model", "thought_level"]

MODE, MODEL, EFFORT = "mode", "model", "effort"
"""The ids of the options."""
DEFAULT = "default"
"""The value of the option for an effort that kode and the model choose."""
MAX_NAMED = 8  # a sentence that can be read


def config_options(conversation: Conversation, models: Iterable[str]) -> list[ConfigOption]:
    """The options with their values; the current value is always among them."""
    model, effort = conversation.agent.provider.model, conversation.agent.effort or DEFAULT
    modes: dict[str, str | None] = {**conversation.modes}
    efforts = conversation.agent.provider.info.efforts
    options = [
        _make_option(MODE, "Permission mode", "mode", conversation.gate.state.mode, modes),
        _make_option(MODEL, "Model", "model", model, dict.fromkeys((model, *models))),
    ]
    if efforts:
        levels = dict.fromkeys((DEFAULT, *efforts, effort))
        options.append(_make_option(EFFORT, "Effort", "thought_level", effort, levels))
    return options


def _make_option(
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


def mode_state(conversation: Conversation) -> schema.SessionModeState:
    """The modes, for clients without support for options."""
    listed = conversation.modes.items()
    return schema.SessionModeState(
        current_mode_id=conversation.gate.state.mode,
        available_modes=[schema.SessionMode(id=m, name=m, description=what) for m, what in listed],
    )


def set_choice(conversation: Conversation, models: Iterable[str], option: str, value: str) -> None:
    """Switches to a mode, a model or an effort. Raises: UserError for an unknown option, or a value
    that is not offered or cannot be used."""
    offered: dict[str, tuple[list[str], Callable[[str], Any]]] = {
        MODE: ([*conversation.modes], conversation.set_permission_mode),
        MODEL: ([conversation.agent.provider.model, *models], conversation.use_model),
        EFFORT: ([value], conversation.use_effort),  # which says what there is
    }
    if option not in offered:
        raise UserError(f"There is no option {option[:40]!r}; there are {', '.join(offered)}.")
    values, use = offered[option]
    if value not in values:
        named = ", ".join(values[:MAX_NAMED])
        is_limited = option == MODE and "full" not in values
        more = " `kode acp --permission-mode full` offers full." if is_limited else ""
        raise UserError(
            f"There is no {option} {value[:80]!r} here. The {option}s are: {named}.{more}"
        )
    use(value)


Run = Callable[[Conversation, str], Awaitable[str]]
"""(conversation, the words after the command) → what the person reads."""


async def _run_compact(conversation: Conversation, argument: str) -> str:
    if argument == "undo":
        return conversation.undo_compaction() or "No compaction to undo."
    reduced = await conversation.compact(argument)
    if reduced is None:
        return "Nothing to compact yet."
    return f"Compacted: {reduced.tokens_before:,} → {reduced.tokens_after:,} tokens."


async def _run_memory(conversation: Conversation, argument: str) -> str:
    try:
        words = shlex.split(argument)
    except ValueError as error:
        raise UserError(f"/memory: {error}. Close the quotes and try again.") from error
    outcome = await conversation.memory_command(words or ["show"])
    return f"```\n{outcome.text.rstrip()}\n```"


COMMANDS: Mapping[str, tuple[Run, str, str]] = {
    "undo": (lambda conversation, _: conversation.undo(), "undo the last turn's files", ""),
    "redo": (lambda conversation, _: conversation.redo(), "redo the last undo", ""),
    "compact": (_run_compact, "summarize the conversation, or undo that", "[WHAT MATTERS | undo]"),
    "memory": (_run_memory, "show and change what kode remembers", "[COMMAND]"),
}
"""Name → what the command runs, its summary, its arguments. Others make no sense in a client."""


def parse_command(text: str) -> tuple[Run, str] | None:
    """The command in a message and the words after it; None for an ordinary message."""
    line = text.strip()
    if "\n" in line or not line.startswith("/"):
        return None
    name, _, argument = line[1:].partition(" ")
    return (COMMANDS[name][0], argument.strip()) if name in COMMANDS else None


def commands_update(conversation: Conversation) -> Update:
    """An update with all commands that a message may begin with."""
    offered = {name: (summary, takes) for name, (_, summary, takes) in COMMANDS.items()}
    others = conversation.list_offered()
    if conversation.extensions is not None:
        others |= conversation.extensions.commands()
    for name, what in others.items():
        offered.setdefault(name.removeprefix("/"), (what, ""))
    return update_available_commands(
        AvailableCommand(
            name=name,
            description=what,
            input=AvailableCommandInput(UnstructuredCommandInput(hint=hint)) if hint else None,
        )
        for name, (what, hint) in offered.items()
    )


Options = list[schema.PermissionOption]
PLAN_OPTIONS = {
    "ask": "Go ahead, ask before each change",
    "auto-edit": "Go ahead, edit files in the project without asking",
}


def permission_options(ways: Mapping[str, str]) -> Options:
    """The ways to allow, the first for this call only and the others lasting, and then no."""

    def option(way: str, name: str, kind: schema.PermissionOptionKind) -> schema.PermissionOption:
        return schema.PermissionOption(option_id=way, name=name[:1].upper() + name[1:], kind=kind)

    (once, label), *lasting = ways.items()
    always = (option(way, name, "allow_always") for way, name in lasting)
    return [option(once, label, "allow_once"), *always, option("no", "No", "reject_once")]


async def ask_permission(
    client: Client, session_id: str, question: Question, call: ShownCall | None
) -> Answer:
    """Asks the person for permission. `call` is the call in question as the client shows it; if
    None, the question appears as a call of its own. An error of the client counts as a no."""
    why = "\n".join(filter(None, (question.title, *question.dangers, question.reason)))
    asker = f" (asked by {visible(question.asker)})" if question.asker else ""
    update = schema.ToolCallUpdate(
        tool_call_id=f"question-{uuid.uuid4().hex[:8]}",
        title=question.title + asker,
        kind="other",
        status="pending",
        content=[text_content(text) for text in (why, question.preview.strip()) if text],
    )
    if call is not None:
        fields = ("tool_call_id", "title", "kind", "raw_input", "locations")
        update = update.model_copy(update={name: getattr(call.start, name) for name in fields})
    chosen = await _choose_option(
        client, session_id, update, permission_options(question.ways_to_allow)
    )
    return Answer(choice=cast(Any, chosen) if chosen in ("once", "session", "project") else "no")


async def ask_about_plan(client: Client, session_id: str, plan: str) -> PermissionMode | None:
    """Asks whether to carry out the plan that a turn ended with. Returns the mode to do it in; None
    to keep planning."""
    update = schema.ToolCallUpdate(
        tool_call_id=f"plan-{uuid.uuid4().hex[:8]}",
        title="Go ahead with this plan?",
        kind="switch_mode",
        status="pending",
        content=[text_content(plan)],
    )
    chosen = await _choose_option(client, session_id, update, permission_options(PLAN_OPTIONS))
    return cast(PermissionMode, chosen) if chosen in PLAN_OPTIONS else None


async def _choose_option(
    client: Client,
    session_id: str,
    call: schema.ToolCallUpdate,
    options: Options,
) -> str:
    """The id of the option chosen; "" if none was, or the client failed."""
    try:
        response = await client.request_permission(session_id, call, options)
    except (RequestError, ConnectionError):
        return ""
    outcome = response.outcome
    return outcome.option_id if isinstance(outcome, schema.AllowedOutcome) else ""
