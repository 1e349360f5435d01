"""Builds the agent of a replay: kode's own parts in a copy of the project, with a gate, tools and a
memory that use the record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kode import paths
from kode.assembly import (
    cost_function,
    make_agent,
    of_session,
    open_sandbox,
    open_workplace,
)
from kode.config import Config
from kode.contracts import ModelInfo, Sandbox, Tool
from kode.conversation.delegation import make_delegation
from kode.conversation.extensions import with_checkers
from kode.engine.agent import Agent, directly
from kode.events import silent
from kode.messages import Text, Usage, section_of
from kode.providers.models import info_of
from kode.replay.answers import Answers, replaying, tool_of
from kode.replay.memory import RecordedMemory
from kode.replay.played import Live
from kode.replay.recording import PastTurn, Recording
from kode.replay.same import Form
from kode.replay.scratch import Scratch
from kode.session import log
from kode.session.entries import AnyEntry, MessageEntry
from kode.session.requests import sections_of
from kode.subagents.delegate import delegate_tool
from kode.tools.builtin import BUILTIN
from kode.workplace import Workplace

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


def _place(config: Config, scratch: Scratch, session: log.Session) -> Workplace:
    """The person's own folders stay out of reach, as they were."""
    place = of_session(open_workplace(config, scratch.home, scratch.cwd), session.id)
    own = paths.own_folders(paths.home(), config.memory.data_dir)
    return replace(place, protected=(*place.protected, *own))


def confined_sandbox(config: Config, scratch: Scratch, session: log.Session) -> Sandbox | None:
    """Where commands run that ran outside the sandbox; None if there is none with a copy."""
    forced = config.model_copy(
        update={"sandbox": config.sandbox.model_copy(update={"enabled": True})}
    )
    sandbox = open_sandbox(forced, _place(config, scratch, session))
    return sandbox if sandbox is not None and sandbox.holds() and sandbox.layered() else None


def agent_of(
    config: Config, changes: Changes, answers: Answers, session: log.Session, turn: PastTurn
) -> Agent:
    """The agent of the process that began with this turn. Raises: ConfigError for bad rules, and a
    budget without a price."""
    played = answers.played
    agent, gate, _ = make_agent(
        config,
        played,
        session,
        _place(config, answers.scratch, session),
        emit=silent,
        ask=answers.answer,
        memory=RecordedMemory(played, without=changes.without_memory),
    )
    tools = _tools(config, agent, session, played.recording, turn)
    agent = replace(
        agent,
        interceptors=(replaying(gate, answers),),
        tools=tuple(map(answers.tool, tools)),
        cost_usd=_cost(changes.live),
    )
    if config.diagnostics:
        agent = replace(agent, around=with_checkers(agent, directly))
    return agent


def _tools(
    config: Config,
    agent: Agent,
    session: log.Session,
    recording: Recording,
    turn: PastTurn,
) -> Sequence[Tool]:
    """The tools of this kode, and those that only the record knows, in the recorded order."""
    delegation = make_delegation(
        lambda: config, lambda: agent, session, folder=agent.place.home, ask=None, emit=silent
    )
    own = {tool.name: tool for tool in (*BUILTIN, delegate_tool(delegation))}
    request = recording.begins_process(turn)
    recorded = (recording.tools_of(request) if request is not None else None) or ()
    known = {spec.name: own.get(spec.name) or tool_of(spec) for spec in recorded}
    return tuple((known or own).values())


def skills_of(prompt: AnyEntry) -> str:
    """The list of skills that was sent with a message; "" if none was."""
    assert isinstance(prompt, MessageEntry)
    texts = (part for part in prompt.parts if isinstance(part, Text))
    return next((part.text for part in texts if section_of(part) == "skills"), "")


def _cost(live: Live | None) -> Callable[[Usage], float | None]:
    """Recorded replies cost nothing again."""
    if live is None:
        return lambda usage: 0.0
    price = cost_function(live.provider)
    return lambda usage: price(usage) if live.begun else 0.0


def settings_of(config: Config, recording: Recording, changes: Changes) -> Config:
    """The person's settings, overridden by the record, then by the changes."""
    text, request = recording.first_request()
    appended = sections_of(text, request).get("appended", "") if request is not None else ""
    modes = [turn.end.permission_mode for turn in recording.turns() if turn.end is not None]
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


def form_of(recording: Recording, home: Path, project: Path, now_id: str | None) -> Form:
    """The form that hides where this session, its home and its project lie."""
    pairs = {str(home): recording.home, str(project): recording.project}
    if now_id is not None:
        then_id = recording.header.id
        then_folder = paths.session_folder(Path(recording.home), then_id)
        pairs[str(paths.session_folder(home, now_id))] = str(then_folder)
        pairs[now_id] = then_id
    return Form(now_to_then=tuple(sorted(pairs.items(), key=lambda pair: -len(pair[0]))))


def info_now(config: Config, recording: Recording) -> ModelInfo:
    """The recorded model's figures, with the person's overrides."""
    model = recording.header.model
    own = (
        {} if config.context.window is None else {model: {"context_window": config.context.window}}
    )
    return info_of(model, own)
