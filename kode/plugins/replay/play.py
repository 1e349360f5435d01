"""Replays the turns of a recording: the same loop, with recorded answers and results.

Between two turns it repeats what the person did then: a manual compaction, a rewind, an edit of the
plan.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast, get_args

from kode.plugin import (
    AnyEntry,
    BareSession,
    CompactionEntry,
    Config,
    Image,
    InjectReason,
    MessageEntry,
    PermissionMode,
    PlanEntry,
    RestoreEntry,
    RewindEntry,
    SystemEntry,
    TaintEntry,
    Text,
    TrimEntry,
    TurnEnded,
    write_plan,
)
from kode.plugins.replay.agent import (
    RecordedResults,
    info_now,
    replay_session,
    settings_of,
    skills_of,
    tools_of,
)
from kode.plugins.replay.memory import RecordedMemory, memory_alone
from kode.plugins.replay.played import Played, Step
from kode.plugins.replay.recording import PastTurn, Recording
from kode.plugins.replay.same import Form


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The result of a replay."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    """The turns that ended before their last recorded step, a sentence each."""

    @property
    def same(self) -> bool:
        """Whether the steps are those of the record, and each matches."""
        return not self.notes and all(step.same for step in self.steps)


async def play(recording: Recording, config: Config, *, home: Path, cwd: Path) -> Replay:
    """Replays a recording with a folder for the session it makes, `home`, and the project's files
    in `cwd`, which are only read. `config` are the person's current settings, overridden by those
    in the record.

    Raises: KodeError.
    """
    played = Played(recording, info=info_now(config, recording))
    bare = BareSession.create(settings_of(config, recording), home=home, cwd=cwd, provider=played)
    results = RecordedResults(played=played, results=recording.results())
    context = bare.context
    context.session = session = replay_session(context.session, recording.entries, results.answered)
    played.form = Form.between(recording, home, bare.place.project, session.id)
    played.sections = lambda: context.sections
    player = _Player(bare=bare, played=played, results=results)
    try:
        for turn in recording.turns:
            await player.play(turn)
        return Replay(steps=tuple(played.steps), notes=tuple(player.cut))
    finally:
        bare.close()


@dataclass(kw_only=True)
class _Player:
    bare: BareSession
    played: Played
    results: RecordedResults
    cut: list[str] = field(default_factory=list)
    """Turns that ended before their last recorded step, a sentence each."""
    skills: str = ""
    """As recorded; they lie outside the project."""

    async def play(self, turn: PastTurn) -> None:
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
        if turn.end is not None and turn.end.permission_mode in get_args(PermissionMode):
            self.bare.gate.mode = cast(PermissionMode, turn.end.permission_mode)
        prompt = entries[turn.begins]
        assert isinstance(prompt, MessageEntry)
        text, attachments = _said(prompt)
        ended: TurnEnded = await self.bare.turn(text, attachments, played.steering)
        if ended.status == "interrupted" and not played.interrupted:
            raise asyncio.CancelledError  # cancelled by the person now
        played.interrupted = False
        if played.is_cut:
            why = ended.error or f"it ended with {ended.status}"
            self.cut.append(f"Turn {turn.number} ended early in the replay: {why}")
        played.compare_rest(self.bare.context.session)

    async def _begin_process(self, turn: PastTurn) -> None:
        """Creates an agent per recorded process: its prompt is rendered again, and no file has been
        read."""
        first, bare, played = not self.played.steps, self.bare, self.played
        self.skills = skills_of(played.recording.entries[turn.begins]) or self.skills
        tools = tools_of(played.recording, turn)
        bare.staff(played, tools, memory=RecordedMemory(played))
        opening, skills = bare.agent.opening, {"skills": self.skills} if self.skills else {}
        bare.agent = replace(
            bare.agent,
            interceptors=(self.results.allow,),
            around=self.results.answer,
            opening=lambda window: {**skills, **opening(window)},
            cost_usd=lambda usage: 0.0,  # recorded replies cost nothing again
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
