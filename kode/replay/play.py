"""Plays the turns of a recording again: the same loop, its answers from the record, tools for real
in a copy of the project.

Between two turns what the person did then is done again: a compaction by hand, a rewind, an edit of
the plan, files put back.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast, get_args

from kode import paths
from kode.assembly import (
    cost_function,
    make_agent,
    make_delegation,
    of_session,
    open_sandbox,
    open_workplace,
    shorten,
)
from kode.config import Config
from kode.contracts import InjectReason, ModelInfo, PermissionMode, Sandbox, Tool
from kode.conversation import Conversation
from kode.conversation.extensions import with_checkers
from kode.engine.agent import Agent
from kode.engine.context import Context, compact, open_context
from kode.engine.turn import run_turn
from kode.events import TurnEnded, silent
from kode.extensions.skills import HEADING
from kode.messages import Image, Text, Usage
from kode.permissions.gate import PersonGate
from kode.providers.models import info_of
from kode.replay.answers import (
    Answers,
    RecordedMemory,
    ReplayGate,
    memory_alone,
    replayed,
    tool_of,
)
from kode.replay.played import Live, Played, Step
from kode.replay.recording import PastTurn, Recording
from kode.replay.same import Difference, Form
from kode.replay.scratch import Scratch
from kode.session import log
from kode.session.entries import (
    AnyEntry,
    CompactionEntry,
    MessageEntry,
    PlanEntry,
    RestoreEntry,
    RewindEntry,
    SystemEntry,
    TaintEntry,
    TrimEntry,
)
from kode.session.plan import write_plan
from kode.session.requests import sections_of
from kode.subagents.delegate import delegate_tool
from kode.tools import BUILTIN, SMALL
from kode.workplace import Workplace

MANY_STEPS = 1_000_000
"""The record says when a turn of its own ends."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is to be another way than it was."""

    append_system: str = ""
    without_memory: bool = False
    network: bool = False
    live: Live | None = None


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What came of a replay."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    """What is to be known of it, each a sentence."""
    ended: TurnEnded | None
    """How the last turn ended."""
    sandbox: Sandbox | None
    """Where commands can run in the copy; None: there is none."""

    @property
    def same(self) -> bool:
        """Whether every step is as recorded."""
        return all(step.same for step in self.steps)

    @property
    def first_difference(self) -> tuple[Step, Difference] | None:
        """The first, with its step."""
        return next(((step, one) for step in self.steps for one in step.differences), None)


async def play(
    recording: Recording, config: Config, scratch: Scratch, changes: Changes | None = None
) -> Replay:
    """Plays a recording in a copy. `config` are the person's settings now; those that the record
    has are taken from there. With a live model only up to the end of the turn in which it begins.

    Raises: KodeError.
    """
    changes = changes or Changes()
    live = changes.live
    header = recording.header
    session = log.create(
        scratch.home, cwd=scratch.cwd, model=header.model, provider=header.provider
    )
    session = replayed(session, recording.entries)
    form = _form(recording, scratch, header.id, session.id or "")
    played = Played(recording, info=_info(config, recording), form=form, live=live)
    settings = _settings(config, recording, changes)
    context = Context(session)
    answers = Answers(
        played=played,
        scratch=scratch,
        network=changes.network,
        confined=_confined(settings, scratch, session),
    )
    player = _Player(
        config=settings, changes=changes, context=context, played=played, answers=answers
    )
    played.sections = lambda: context.sections
    try:
        ended = None
        for turn in recording.turns():
            ended = await player.play(turn)
            if live is not None and live.begun:
                break
        return Replay(
            steps=tuple(played.steps),
            notes=(*scratch.notes, *_notes(player)),
            ended=ended,
            sandbox=answers.confined,
        )
    finally:
        session.close()


def in_place(recording: Recording) -> Played:
    """A model that answers as recorded in a conversation of the person's own, and refuses a request
    that differs; see `follow_conversation`."""
    info = info_of(recording.header.model)
    return Played(recording, info=info, form=Form(now_to_then=()), strict=True)


def follow_conversation(played: Played, talk: Conversation) -> None:
    """Lets it compare the requests of this conversation, whose first turn is the recorded first."""
    recording, now = played.recording, talk.session.id
    then_home = Path(recording.home)
    pairs = [(str(talk.agent.place.project), recording.project), (str(talk.home), recording.home)]
    if now is not None:
        folder = paths.session_folder(then_home, recording.header.id)
        pairs.append((str(paths.session_folder(talk.home, now)), str(folder)))
    played.form = Form(now_to_then=tuple(sorted(pairs, key=lambda pair: -len(pair[0]))))
    played.sections = lambda: talk.context.sections
    played.turn = recording.turns()[0]
    played.skip_to(played.turn.begins)


@dataclass(kw_only=True)
class _Player:
    config: Config
    changes: Changes
    context: Context
    played: Played
    answers: Answers
    agent: Agent = field(init=False)
    """Of the process that is played."""
    skills: tuple[str, ...] = ()
    """As they were recorded; they lie outside the project."""

    async def play(self, turn: PastTurn) -> TurnEnded:
        """One turn, after what happened since the one before."""
        played, entries = self.played, self.played.recording.entries
        played.turn = None
        begins = not played.steps or played.recording.begins_process(turn) is not None
        for at in range(turn.first, turn.begins):
            if not (begins and isinstance(entries[at], SystemEntry)):
                await self._between(at, entries[at])
        played.skip_to(turn.begins)
        if begins:
            await self._begin_process(turn)
        played.turn = turn
        for taken in turn.taken:
            self.answers.scratch.undo_again(taken)
        if turn.group is not None:
            self.answers.scratch.put_back([turn.group])
        self.answers.edited.clear()
        if turn.end is not None and turn.end.permission_mode in get_args(PermissionMode):
            self.agent.gate.mode = cast(PermissionMode, turn.end.permission_mode)
        prompt = entries[turn.begins]
        assert isinstance(prompt, MessageEntry)
        text, attachments = _said(prompt)
        ended = await run_turn(self.agent, self.context, text, silent, attachments, played.steering)
        if ended.status == "interrupted" and not played.interrupted:
            raise asyncio.CancelledError  # by the person, now
        played.interrupted = False
        played.compare_rest(self.context.session)
        return ended

    async def _begin_process(self, turn: PastTurn) -> None:
        """An agent of its own for each process: its prompt is rendered, no file was read yet."""
        first = not self.played.steps
        agent = _agent(self.config, self.changes, self.answers, self.context.session, turn)
        self.skills = _skills_of(self.played.recording.entries[turn.begins]) or self.skills
        if {tool.name for tool in BUILTIN} & {tool.name for tool in agent.tools} <= {*SMALL}:
            agent = shorten(agent, self.config)
        self.agent = replace(agent, opening=lambda window: (*self.skills, *agent.opening(window)))
        self.context.specs = ()
        pending = self.context.pending_first_user
        await open_context(self.agent, self.context, "start" if first else "resume")
        self.context.pending_first_user = pending or self.context.pending_first_user

    async def _between(self, at: int, entry: AnyEntry) -> None:
        """What happened between two turns happens again."""
        context = self.context
        match entry:
            case CompactionEntry():
                self.played.skip_to(at)
                await compact(self.agent, context, silent, by_person=True)
            case RewindEntry() | TrimEntry() | RestoreEntry():
                context.session.append(entry)
                context.known_messages = 0
            case PlanEntry():
                if (plan := self.agent.place.plan) is not None:
                    write_plan(plan, entry.text)
                context.session.append(entry)
            case TaintEntry():
                context.session.append(entry)
            case SystemEntry() if entry.reason != "compacted":
                self.played.skip_to(at)
                await open_context(
                    self.agent, context, cast(InjectReason, entry.reason or "resume")
                )
            case _ if text := memory_alone(entry):
                context.pending_first_user = text
            case _:
                pass


def _said(prompt: MessageEntry) -> tuple[str, Sequence[Text | Image]]:
    """What the person said, and what went with it, but for what memory and kode itself added."""
    own = [p for p in prompt.parts if isinstance(p, Text) and not p.source]
    rest = [
        p
        for p in prompt.parts
        if isinstance(p, Text | Image)
        and p is not own[-1]
        and not (isinstance(p, Text) and p.source in ("memory", "opening"))
    ]
    return own[-1].text, rest


def _place(config: Config, scratch: Scratch, session: log.Session) -> Workplace:
    """The person's own folders stay out of reach, as they were."""
    place = of_session(open_workplace(config, scratch.home, scratch.cwd), session.id)
    own = paths.own_folders(paths.home(), config.memory.data_dir)
    return replace(place, protected=(*place.protected, *own))


def _confined(config: Config, scratch: Scratch, session: log.Session) -> Sandbox | None:
    """Where commands run that ran outside of the sandbox; None where there is none with a copy."""
    forced = config.model_copy(
        update={"sandbox": config.sandbox.model_copy(update={"enabled": True})}
    )
    sandbox = open_sandbox(forced, _place(config, scratch, session))
    return sandbox if sandbox is not None and sandbox.holds() and sandbox.layered() else None


def _agent(
    config: Config, changes: Changes, answers: Answers, session: log.Session, turn: PastTurn
) -> Agent:
    played = answers.played
    agent = make_agent(
        config,
        played,
        session,
        _place(config, answers.scratch, session),
        emit=silent,
        ask=None,
        memory=RecordedMemory(played, without=changes.without_memory),
    )
    assert isinstance(agent.gate, PersonGate)
    tools = _tools(config, agent, session, played.recording, turn)
    agent = replace(
        agent,
        gate=ReplayGate(agent.gate, answers),
        tools=tuple(map(answers.tool, tools)),
        cost_usd=_cost(changes.live),
    )
    if config.diagnostics and agent.hooks is not None:
        agent = replace(agent, around=with_checkers(agent, agent.hooks))
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


def _skills_of(prompt: AnyEntry) -> tuple[str, ...]:
    """The list of skills that went with a message."""
    assert isinstance(prompt, MessageEntry)
    parts = (p for p in prompt.parts if isinstance(p, Text) and p.source == "opening")
    return tuple(part.text for part in parts if part.text.startswith(HEADING))


def _cost(live: Live | None) -> Callable[[Usage], float | None]:
    """Recorded replies cost nothing again."""
    if live is None:
        return lambda usage: 0.0
    price = cost_function(live.provider)
    return lambda usage: price(usage) if live.begun else 0.0


def _settings(config: Config, recording: Recording, changes: Changes) -> Config:
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


def _form(recording: Recording, scratch: Scratch, then_id: str, now_id: str) -> Form:
    then_home = Path(recording.home)
    pairs = {
        str(paths.session_folder(scratch.home, now_id)): str(
            paths.session_folder(then_home, then_id)
        ),
        str(scratch.home): str(then_home),
        str(scratch.project): recording.project,
        now_id: then_id,
    }
    return Form(now_to_then=tuple(sorted(pairs.items(), key=lambda pair: -len(pair[0]))))


def _info(config: Config, recording: Recording) -> ModelInfo:
    """What is known of the recorded model, with the person's own figures."""
    model = recording.header.model
    own = (
        {} if config.context.window is None else {model: {"context_window": config.context.window}}
    )
    return info_of(model, own)


def _notes(player: _Player) -> list[str]:
    recording, notes = player.played.recording, []
    if recording.first_request()[1] is None:
        notes.append(
            "The session is from a kode that kept no record of requests: its system prompt and its "
            "tools are not compared."
        )
    answered = {name for step in player.played.steps for name in step.answered}
    if answered:
        notes.append(f"From the record, not run: {', '.join(sorted(answered))}.")
    return notes
