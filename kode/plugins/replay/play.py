"""Replays the turns of a recording: the same loop, recorded answers, real tools in a copy of the
project.

Between two turns it repeats what the person did then: a manual compaction, a rewind, an edit of the
plan, undone files.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast, get_args

from kode.plugin import BareSession, Config, write_plan
from kode.plugin.contracts import InjectReason, PermissionMode
from kode.plugin.entries import (
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
from kode.plugin.errors import ConfigError
from kode.plugin.events import TurnEnded
from kode.plugin.messages import Image, Text
from kode.plugins.replay.agent import Changes, cost_of, info_now, settings_of, skills_of, tools_of
from kode.plugins.replay.answers import Answers, replay_session
from kode.plugins.replay.memory import RecordedMemory, memory_alone
from kode.plugins.replay.played import Played, Step
from kode.plugins.replay.recording import PastTurn, Recording
from kode.plugins.replay.same import Form
from kode.plugins.replay.scratch import Scratch


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The result of a replay."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    """Notes on it, each a sentence."""
    ended: TurnEnded | None
    """How the last turn ended."""
    bare: BareSession
    """The session that was played, in which commands can check the copy."""
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
    played = Played(recording, info=info_now(config, recording), live=live)
    settings = settings_of(config, recording, changes)
    bare = BareSession.create(settings, home=scratch.home, cwd=scratch.cwd, provider=played)
    context = bare.context
    context.session = session = replay_session(context.session, recording.entries)
    played.form = Form.between(recording, scratch.home, bare.place.project, session.id)
    played.sections = lambda: context.sections
    answers = Answers(played=played, scratch=scratch, bare=bare, network=changes.network)
    player = _Player(changes=changes, bare=bare, played=played, answers=answers)
    try:
        if changes.needs_sandbox and bare.sandbox is None:
            raise ConfigError(
                "--verify would run what the model wrote, and there is no sandbox here for it. "
                "Leave it out, or make one possible: `kode doctor` says how."
            )
        ended = None
        for turn in recording.turns:
            ended = await player.play(turn)
            if live is not None and live.begun:
                break
        return Replay(
            steps=tuple(played.steps),
            notes=(*scratch.notes, *player.cut, *_notes(player)),
            ended=ended,
            bare=bare,
            is_whole=not player.cut,
        )
    finally:
        bare.close()


@dataclass(kw_only=True)
class _Player:
    changes: Changes
    bare: BareSession
    played: Played
    answers: Answers
    cut: list[str] = field(default_factory=list)
    """Turns that ended before their last recorded step, a sentence each."""
    skills: str = ""
    """As recorded; they lie outside the project."""

    async def play(self, turn: PastTurn) -> TurnEnded:
        """Plays one turn, after what happened since the previous one."""
        played, entries = self.played, self.played.recording.entries
        played.turn = None
        begins = not played.steps or played.recording.begins_process(turn)
        for index in range(turn.first, turn.begins):
            if not (begins and isinstance(entries[index], SystemEntry)):
                await self._between(index, entries[index])
        played.skip_to(turn.begins)
        if begins:
            await self._begin_process(turn)
        played.turn = turn
        for file in turn.taken:
            self.answers.scratch.set(*file)
        self.answers.scratch.put_back(played.recording.before(turn.changes))
        self.answers.edited.clear()
        if turn.end is not None and turn.end.permission_mode in get_args(PermissionMode):
            self.bare.gate.mode = cast(PermissionMode, turn.end.permission_mode)
        prompt = entries[turn.begins]
        assert isinstance(prompt, MessageEntry)
        text, attachments = _said(prompt)
        ended = await self.bare.turn(text, attachments, played.steering)
        if ended.status == "interrupted" and not played.interrupted:
            raise asyncio.CancelledError  # cancelled by the person now
        played.interrupted = False
        if played.is_cut and not (played.live is not None and played.live.begun):
            why = ended.error or f"it ended with {ended.status}"
            self.cut.append(f"Turn {turn.number} ended early in the replay: {why}")
        played.compare_rest(self.bare.context.session)
        return ended

    async def _begin_process(self, turn: PastTurn) -> None:
        """Creates an agent per recorded process: its prompt is rendered again, and no file has been
        read."""
        first, bare, played = not self.played.steps, self.bare, self.played
        self.skills = skills_of(played.recording.entries[turn.begins]) or self.skills
        bare.staff(
            played,
            tuple(map(self.answers.tool, tools_of(played.recording, turn))),
            memory=RecordedMemory(played, without=self.changes.without_memory),
            ask=self.answers.answer,
        )
        opening, skills = bare.agent.opening, {"skills": self.skills} if self.skills else {}
        bare.agent = replace(
            bare.agent,
            interceptors=(self.answers.intercept,),
            opening=lambda window: {**skills, **opening(window)},
            cost_usd=cost_of(bare.agent.cost_usd, self.changes.live),
        )
        context = bare.context
        context.specs = ()
        pending = context.pending_first_user
        await bare.open("start" if first else "resume")
        context.pending_first_user = pending or context.pending_first_user

    async def _between(self, position: int, entry: AnyEntry) -> None:
        """Repeats what happened between two turns."""
        context = self.bare.context
        match entry:
            case CompactionEntry() | PlanEntry() | SystemEntry() if not context.session.turns:
                pass  # only a damaged record has one before its first turn
            case CompactionEntry():
                self.played.skip_to(position)
                await self.bare.compact()
            case RewindEntry() | TrimEntry() | RestoreEntry():
                context.session.append(entry)
                context.known_messages = 0
            case PlanEntry():
                if (plan := self.bare.place.plan) is not None:
                    write_plan(plan, entry.text)
                context.session.append(entry)
            case TaintEntry():
                context.session.append(entry)
            case SystemEntry() if entry.reason != "compacted":
                self.played.skip_to(position)
                await self.bare.open(cast(InjectReason, entry.reason or "resume"))
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
    begun = recording.beginning()
    if begun is None or not begun.tools:
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
