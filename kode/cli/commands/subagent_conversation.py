"""Builds the conversation of a subagent: settings, session and agent, from what its parent passed.

`subagent` runs the process around it.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kode.cli.flags import config_flags

if TYPE_CHECKING:
    from kode.config.load import Loaded
    from kode.config.model import Config
    from kode.conversation import Conversation
    from kode.events import Emit
    from kode.extensions.agents import AgentDefinition
    from kode.subagents.child import ParentLink
    from kode.subagents.task import Start, Task


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The input of a child."""

    arguments: argparse.Namespace
    cwd: Path
    task: Task
    memory: str
    """The memory section of the system prompt; "" for none."""
    start: Start | None = None
    """What the parent has said first; None without a parent."""
    stdin: BinaryIO | None = None
    """Where the parent says more."""


async def child_conversation(setting: Setting, link: ParentLink | None, emit: Emit) -> Conversation:
    """The child's agent with its session; memory is a snapshot. Raises: UserError."""
    from kode.conversation import Settings, open_conversation
    from kode.conversation.settings import Child
    from kode.memory.system import SnapshotMemory

    arguments, start = setting.arguments, setting.start
    definition = _definition(setting)
    settings = Settings(
        _settings(setting, definition),
        emit=emit,
        ask=link.ask if link is not None and start is not None and start.may_ask else None,
        keep_session=False,
        trust_project=start is not None and start.trust_project,
        memory=SnapshotMemory(setting.memory),
        tools=tuple(map(link.use_tool, start.tools)) if start and link else (),
        child=Child(
            agent_type=setting.task.agent or "general-purpose",
            definition=definition,
            folder=(setting.cwd / arguments.task).parent if start is not None else None,
            parent_session=arguments.parent_session,
            start=start,
        ),
    )
    conversation = await open_conversation(settings, cwd=setting.cwd)

    def report_rest_of_tree() -> None:
        if conversation.delegation is not None:
            conversation.delegation.report_rest_of_tree()

    if link is not None:
        link.agent, link.session = conversation.agent, conversation.session
        link.on_rest_of_tree = report_rest_of_tree
    return conversation


def _definition(setting: Setting) -> AgentDefinition | None:
    """The definition that the task names. Raises: UserError if it is missing or unapproved."""
    from kode.conversation.extensions import definition_of

    name = setting.task.agent
    trusted = setting.start is not None and setting.start.trust_project
    return definition_of(name, setting.cwd, trust_project=trusted) if name else None


def _settings(setting: Setting, definition: AgentDefinition | None) -> Loaded:
    """The settings of a child: its parent's, or those of this directory, within a child's limits.

    A child never gets a wider permission mode than its parent. Without a parent the flag takes
    precedence over the task file, and that over the configuration.
    """
    from kode.config.load import Loaded, load_config
    from kode.config.model import Config
    from kode.paths import home
    from kode.prompts import template

    arguments, task, start = setting.arguments, setting.task, setting.start
    if start is not None:
        loaded = Loaded(config=Config.model_validate(start.config), origins={})
        limit = loaded.config.permissions.mode
        mode = _narrower(task.permission_mode or limit, limit)
    else:
        fields = {"model": task.model, "permissions.mode": task.permission_mode}
        flags = {key: value for key, value in fields.items() if value is not None}
        flags |= config_flags(arguments)
        loaded = load_config(home(), setting.cwd, environ=os.environ, flags=flags)
        mode = loaded.config.permissions.mode
    config = loaded.config
    limits = config.subagent
    if definition is not None and definition.mode is not None:
        mode = _narrower(definition.mode, mode)
    effort = arguments.effort or task.effort or (definition.effort if definition else None)
    config = config.model_copy(
        update={
            "model": (task.model if start is not None else None) or config.model,
            "effort": effort or config.effort,
            "system": template("subagent"),
            "append_system": definition.prompt if definition is not None else "",
            "small_model": None,
            "timeout_s": None,
            "max_steps": arguments.max_steps or limits.max_steps,
            "permissions": config.permissions.model_copy(update={"mode": mode}),
            "subagent": limits.model_copy(update={"max_depth": max(0, limits.max_depth - 1)}),
            "memory": config.memory.model_copy(update={"enabled": False}),
        }
    )
    if definition is not None and definition.model:
        config = config.model_copy(update={"model": _model_of(definition, config)})
    return replace(loaded, config=config)


def _model_of(definition: AgentDefinition, config: Config) -> str | None:
    """The model of a definition, if the provider in use has it: names like `opus` are another
    agent's, and the session's own model is better than none."""
    from kode.config.choice import named_model, resolve_provider
    from kode.providers.models import info_of
    from kode.registry import owner_of

    choice = resolve_provider(config, os.environ)
    provider, model = named_model(config, os.environ, choice.row, definition.model)
    is_of_another = choice.base_url is None and choice.row.models and owner_of(model) != choice.row
    if provider != choice.name or is_of_another or not info_of(model).known:
        return config.model
    return model


def _narrower(wanted: str, limit: str) -> str:
    from kode.config.load import STRICTNESS

    return max(wanted, limit, key=STRICTNESS.index)
