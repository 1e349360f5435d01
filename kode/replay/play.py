"""Replays the turns of a recording: the same loop, recorded answers, real tools in a copy of the
project.

Between two turns it repeats what the person did then: a manual compaction, a rewind, an edit of the
plan, undone files.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast, get_args

from kode.assembly import (
    simplify,
)
from kode.config import Config
from kode.contracts import InjectReason, PermissionMode, Sandbox
from kode.conversation import Conversation
from kode.engine.agent import Agent
from kode.engine.context import Context, compact, open_context
from kode.engine.turn import run_turn
from kode.errors import ConfigError
from kode.events import TurnEnded, silent
from kode.messages import Image, Text
from kode.providers.models import info_of
from kode.replay.agent import (
    Changes,
    agent_of,
    confined_sandbox,
    form_of,
    info_now,
    settings_of,
    skills_of,
)
from kode.replay.answers import (
    Answers,
    replay_session,
)
from kode.replay.memory import memory_alone
from kode.replay.played import Played, Step
from kode.replay.recording import PastTurn, Recording
from kode.replay.same import Form
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
from kode.tools.builtin import BUILTIN, SMALL


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The result of a replay."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    """Notes on it, each a sentence."""
    ended: TurnEnded | None
    """How the last turn ended."""
    sandbox: Sandbox | None
    """Where commands can run in the copy; None: there is none."""

    is_whole: bool
    """Whether every recorded step was played."""

    @property
    def same(self) -> bool:
        """Whether the steps are those of the record, and each matches."""
        return self.is_whole and all(step.same for step in self.steps)


async def play(
    recording: Recording, config: Config, scratch: Scratch, changes: Changes | None = None
) -> Replay:
    """Replays a recording in a copy. `config` are the person's current settings, overridden by
    those in the record. With a live model, stops at the end of the turn in which it starts.

    Raises: ConfigError without a sandbox if one is needed; KodeError.
    """
    changes = changes or Changes()
    live = changes.live
    header = recording.header
    session = log.create(
        scratch.home, cwd=scratch.cwd, model=header.model, provider=header.provider
    )
    session = replay_session(session, recording.entries)
    form = form_of(recording, scratch.home, scratch.project, session.id)
    played = Played(recording, info=info_now(config, recording), form=form, live=live)
    settings = settings_of(config, recording, changes)
    context = Context(session)
    answers = Answers(
        played=played,
        scratch=scratch,
        network=changes.network,
        confined=confined_sandbox(settings, scratch, session),
    )
    player = _Player(
        config=settings, changes=changes, context=context, played=played, answers=answers
    )
    played.sections = lambda: context.sections
    try:
        if changes.needs_sandbox and answers.confined is None:
            raise ConfigError(
                "--verify would run what the model wrote, and there is no sandbox here for it. "
                "Leave it out, or make one possible: `kode doctor` says how."
            )
        ended = None
        for turn in recording.turns():
            ended = await player.play(turn)
            if live is not None and live.begun:
                break
        return Replay(
            steps=tuple(played.steps),
            notes=(*scratch.notes, *player.cut, *_notes(player)),
            ended=ended,
            sandbox=answers.confined,
            is_whole=not player.cut,
        )
    finally:
        session.close()


def in_place(recording: Recording) -> Played:
    """A model that answers as recorded in a conversation of the person's own, and refuses a request
    that differs; see `follow_conversation`."""
    info = info_of(recording.header.model)
    return Played(recording, info=info, form=Form(now_to_then=()), strict=True)


def follow_conversation(played: Played, talk: Conversation) -> None:
    """Lets it compare the requests of this conversation, whose first turn is the first recorded
    one."""
    recording = played.recording
    played.form = form_of(recording, talk.home, talk.agent.place.project, talk.session.id)
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
    """The agent of the process being played."""
    cut: list[str] = field(default_factory=list)
    """Turns that ended before their last recorded step, a sentence each."""
    skills: str = ""
    """As recorded; they lie outside the project."""

    async def play(self, turn: PastTurn) -> TurnEnded:
        """Plays one turn, after what happened since the previous one."""
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
            raise asyncio.CancelledError  # cancelled by the person now
        played.interrupted = False
        if played.is_cut and not (played.live is not None and played.live.begun):
            why = ended.error or f"it ended with {ended.status}"
            self.cut.append(f"Turn {turn.number} ended early in the replay: {why}")
        played.compare_rest(self.context.session)
        return ended

    async def _begin_process(self, turn: PastTurn) -> None:
        """Creates an agent per recorded process: its prompt is rendered again, and no file has been
        read."""
        first = not self.played.steps
        agent = agent_of(self.config, self.changes, self.answers, self.context.session, turn)
        self.skills = skills_of(self.played.recording.entries[turn.begins]) or self.skills
        if {tool.name for tool in BUILTIN} & {tool.name for tool in agent.tools} <= {*SMALL}:
            agent = simplify(agent, self.config)
        skills = {"skills": self.skills} if self.skills else {}
        self.agent = replace(agent, opening=lambda window: {**skills, **agent.opening(window)})
        self.context.specs = ()
        pending = self.context.pending_first_user
        await open_context(self.agent, self.context, "start" if first else "resume")
        self.context.pending_first_user = pending or self.context.pending_first_user

    async def _between(self, at: int, entry: AnyEntry) -> None:
        """Repeats what happened between two turns."""
        context = self.context
        match entry:
            case CompactionEntry() | PlanEntry() | SystemEntry() if not context.session.turns:
                pass  # only a damaged record has one before its first turn
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
    """The person's words and attachments, without what memory and kode added."""
    own = [p for p in prompt.parts if isinstance(p, Text) and not p.source]
    rest = [
        p
        for p in prompt.parts
        if isinstance(p, Text | Image)
        and p is not own[-1]
        and not (isinstance(p, Text) and p.source in ("memory", "opening"))
    ]
    return own[-1].text, rest


def _notes(player: _Player) -> list[str]:
    recording, notes = player.played.recording, []
    if recording.first_request()[1] is None:
        notes.append(
            "The session is from a kode that kept no record of requests: its system prompt and its "
            "tools are not compared."
        )
    if (origin := recording.header.forked_from) is not None:
        notes.append(
            f"A fork: what was changed in files before it is kept with session {origin.session}, "
            "and is as it is now."
        )
    answered = {name for step in player.played.steps for name in step.answered}
    if answered:
        notes.append(f"From the record, not run: {', '.join(sorted(answered))}.")
    return notes
