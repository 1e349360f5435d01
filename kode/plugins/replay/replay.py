"""Replays the turns of a recording: the same loop, with recorded answers and results.

What happened between two turns, such as a rewind or a compaction by hand, is taken from the record.
"""

import argparse
import asyncio
import contextlib
import os
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from kode.plugin import (
    AnyEntry,
    BareSession,
    CompactionEntry,
    ContextOverflow,
    Image,
    KodeError,
    Message,
    MessageEntry,
    NullMemory,
    Parser,
    ProviderError,
    Request,
    Session,
    SessionError,
    Text,
    TextDelta,
    Tool,
    ToolCall,
    ToolError,
    ToolOutput,
    ToolResult,
    ToolSpec,
    Transcript,
    TurnEnded,
    builtin_tools,
    find_session,
    kode_home,
    load_config,
    model_info_of,
    plural,
    print_either,
    project_root,
    session_file,
    shorten,
    working_directory,
)
from kode.plugins.replay.recording import (
    Comparison,
    RecordedTurn,
    Recording,
    RequestDifference,
    is_reply,
    is_request,
    make_recording,
    read_cassette,
)

SUMMARY_CHARS = 48  # a column beside the others in 80
CHANGES_THE_PAST = ("compaction", "trim", "rewind", "restore")
ADOPTED = (*CHANGES_THE_PAST, "message", "plan", "system", "taint")
"""Types of the entries between two turns that are taken from the record; others are made anew."""


NO_PRICES = dict.fromkeys("input_price output_price cached_price cache_write_price".split(), 0.0)
"""Replace the prices among the model's facts: a recorded reply costs nothing when replayed."""

VENDOR_TOOLS: Mapping[str, tuple[str, Sequence[str]]] = {
    "apply_patch": ("patch", ("write_file", "edit_file")),
    "str_replace_based_edit_tool": ("editor", ("read_file", "write_file", "edit_file")),
    "bash": ("editor", ("shell",)),
}
"""Name of a vendor's own tool → its `tool_format`, and the tools of kode that it replaces."""


@dataclass(kw_only=True)
class ReplayStep:
    """One reply of the model, with the comparison of its request and results."""

    number: int
    turn: int
    summary: str
    """What the model did, in a few words."""
    differences: list[RequestDifference] = field(default_factory=list)
    """In its request, except in results of tools; and in the results of the calls it made."""


@contextlib.contextmanager
def open_cassette(path: Path) -> "Iterator[RecordedProvider]":
    """See `Plugin.replays`. Raises: SessionError for a file that is not a cassette."""
    yield RecordedProvider(read_cassette(path), is_strict=True)


class RecordedProvider:
    """A `Provider` that answers the requests of one replay with the recorded replies."""

    def __init__(self, recording: Recording, *, is_strict: bool = False) -> None:
        """If `is_strict`, the first difference raises a KodeError instead of being noted."""
        self.name = recording.header.provider
        self.model = recording.header.model
        self.steps: list[ReplayStep] = []
        self.notes: list[str] = []
        """A sentence for each turn that ended in the replay before its last recorded reply."""
        self.session_then = Session(header=recording.header, path=None)
        """The recorded session up to where the replay is now."""
        self._recording = recording
        self._info = replace(model_info_of(self.model), **NO_PRICES)  # type: ignore[arg-type]
        self._is_strict = is_strict
        self._comparison = Comparison(then_of={})
        self._sections: Callable[[], Mapping[str, str]] = dict
        """The current sections of the system prompt."""
        self._turn = recording.turns[0]
        """The turn being played."""
        self._next = 0
        """Index of the next entry of the turn."""
        self._compared = (0, 0)
        """How many messages have been compared: of the record, and of the replay."""

    @property
    def tool_format(self) -> Any:
        """The `tool_format` of the recorded session's tools."""
        beginning = self._recording.beginning
        names = [tool.name for tool in beginning.tools] if beginning is not None else []
        return next((VENDOR_TOOLS[name][0] for name in names if name in VENDOR_TOOLS), "kode")

    @property
    def is_same(self) -> bool:
        """Whether no step differs, and no turn ended before its last recorded reply."""
        return not self.notes and not any(step.differences for step in self.steps)

    @property
    def info(self) -> Any:
        """See `provider.Provider`. The context window is the one recorded with the next request, as
        it decides when the conversation is compacted."""
        for entry in filter(is_request, self._turn.entries[self._next :]):
            if (window := vars(entry)["context_window"]) is not None:
                return replace(self._info, context_window=window)
        return self._info

    def follow(
        self,
        home: Path,
        project: Path,
        session_id: str | None,
        sections: Callable[[], Mapping[str, str]],
    ) -> None:
        """Begins with the first turn of a session that is now open: names its folders and its id,
        for the comparison, and what returns the sections of its system prompt, by name."""
        record = self._recording
        pairs = {str(home): record.home, str(project): record.project}
        pairs[session_id or record.header.id] = record.header.id
        self._comparison, self._sections = Comparison(then_of=pairs), sections
        self.begin_turn(self._turn)

    def begin_turn(self, turn: RecordedTurn) -> None:
        """Switches to this turn, after the recorded entries between it and the previous one."""
        self._turn, self._next = turn, 0
        self._append_recorded(turn.before)

    async def reply(self, request: Request, emit: Callable[[Any], None]) -> Message:
        """See `provider.Provider`. If the recorded turn has no further reply, raises what ended it.
        Raises: KodeError for a request that the record does not have; ContextOverflow."""
        if request.aside:
            return self._answer_aside()
        if not self.has_reply:
            raise self._error_at_end()
        upcoming, kinds = self.list_upcoming(), self.upcoming_kinds()
        if kinds[:1] == ["request"] and "compaction" in kinds:
            self._advance(1 + next(i for i, entry in enumerate(upcoming) if is_request(entry)))
            raise ContextOverflow("The recorded request did not fit the model's window.")
        self._advance(len(upcoming))
        entry = self._turn.entries[self._next]
        assert isinstance(entry, MessageEntry)
        calls = ", ".join(part.name for part in entry.parts if part.type == "tool_call")
        text = " ".join(part.text for part in entry.parts if part.type == "text")
        summary = calls or text or f"({entry.stop or 'nothing'})"
        self._compare_request(request, shorten(summary, SUMMARY_CHARS))
        self._advance(1)
        return await self._emit_reply(entry, emit)

    async def aclose(self) -> None:
        """See `provider.Provider`."""

    @property
    def has_reply(self) -> bool:
        """Whether the recorded turn has a further reply."""
        return any(map(is_reply, self._turn.entries[self._next :]))

    def list_upcoming(self) -> Sequence[AnyEntry]:
        """The recorded entries before the turn's next reply, or up to its end if it has no more."""
        return [*takewhile(lambda entry: not is_reply(entry), self._turn.entries[self._next :])]

    def upcoming_kinds(self) -> Sequence[str]:
        """`request` or `compaction` for each such entry among the upcoming ones, in order."""
        return [e.type for e in self.list_upcoming() if is_request(e) or e.type == "compaction"]

    def take_steering(self) -> list[Text]:
        """What the person typed during the recorded turn between its last reply and the next."""
        return [
            part
            for entry in self.list_upcoming()
            if isinstance(entry, MessageEntry) and entry.role == "user"
            for part in entry.parts
            if isinstance(part, Text) and part.source == "steering"
        ]

    def end_turn(self, ended: TurnEnded, messages: Sequence[Message]) -> None:
        """Ends a turn: notes if it ended early, and compares the results after its last request."""
        if self.has_reply:
            why = ended.error or f"it ended with {ended.status}"
            self.notes.append(f"Turn {self._turn.number} ended early in the replay: {why}")
        self._advance(len(self._turn.entries) - self._next)
        if self.steps:
            differences = self._new_differences(messages)
            self.steps[-1].differences += [each for each in differences if each.part == "result"]

    def _advance(self, count: int) -> None:
        self._append_recorded(self._turn.entries[self._next : self._next + count])
        self._next += count

    def _append_recorded(self, entries: Sequence[AnyEntry]) -> None:
        self.session_then.append(*entries)
        if any(entry.type in CHANGES_THE_PAST for entry in entries):
            self._compared = (0, 0)

    def _error_at_end(self) -> BaseException:
        """The exception that ends the replayed turn where the recorded one has no further reply."""
        end = self._turn.end
        if end is not None and end.status in ("success", "incomplete"):
            return KodeError("The recorded turn ended here, and the replay continues.")
        if end is not None and end.status == "error":
            return ProviderError(end.error or "The recorded turn failed here.")
        return asyncio.CancelledError()

    def _compare_request(self, request: Request, summary: str) -> None:
        """Adds a step with its differences. Raises: KodeError if strict and there are any."""
        step = ReplayStep(number=len(self.steps) + 1, turn=self._turn.number, summary=summary)
        beginning = self.session_then.beginning
        if beginning is not None and beginning.tools:
            differences = self._comparison.diff_sections(beginning.sections, self._sections())
            differences += self._comparison.diff_tools(beginning.tools, request.tools)
            # The same difference recurs in every request: only its first step reports it.
            reported = {(each.part, each.name) for s in self.steps for each in s.differences}
            step.differences += [d for d in differences if (d.part, d.name) not in reported]
        previous = self.steps[-1] if self.steps else step
        for difference in self._new_differences(request.messages):
            (previous if difference.part == "result" else step).differences.append(difference)
        self.steps.append(step)
        for compared in (previous, step) if self._is_strict else ():
            for first in compared.differences[:1]:
                raise KodeError(
                    f"Step {compared.number} is not as recorded: {first.part} {first.name} "
                    f"differs.\n{first.diff()}\n"
                    "Record it again where that is meant (`kode run --record FILE`)."
                )

    def _new_differences(self, now: Sequence[Message]) -> list[RequestDifference]:
        """The differences in messages not compared yet; in all if either side has fewer now."""
        recorded, (old, new) = self.session_then.messages, self._compared
        if len(recorded) < old or len(now) < new:
            old = new = 0
        self._compared = len(recorded), len(now)
        return self._comparison.diff_messages(recorded[old:], now[new:])

    async def _emit_reply(self, entry: MessageEntry, emit: Callable[[Any], None]) -> Message:
        parts = list(entry.parts)
        for index, part in enumerate(parts):
            if isinstance(part, Text):
                emit(TextDelta(text=part.text))
            elif isinstance(part, ToolCall):
                arguments = self._comparison.localize(part.arguments)
                parts[index] = replace(part, arguments=arguments)
        if entry.stop == "interrupted":
            raise self._error_at_end()
        now, usage = tuple(parts), entry.usage
        return Message(role="assistant", parts=now, stop=entry.stop, usage=usage, model=entry.model)

    def _answer_aside(self) -> Message:
        """Answers any request beside the conversation with the summary of the next compaction."""
        for entry in self._turn.entries[self._next :]:
            if isinstance(entry, CompactionEntry):
                return Message(role="assistant", parts=(Text(text=entry.summary),), stop="end")
        raise KodeError("The replay compacts the conversation here, and the record does not.")


async def replay_recording(
    recording: Recording, config: Any, *, home: Path, cwd: Path
) -> RecordedProvider:
    """Replays a recording and returns the provider, which has the compared steps. The new session
    is written to the folder `home`; the project's files in `cwd` are only read. `config` has the
    person's current settings, which those in the record override.

    Raises: KodeError.
    """
    provider = RecordedProvider(recording)
    beginning = recording.beginning
    settings = {
        "max_steps": 1_000_000,  # the record determines when a turn ends
        "timeout_s": None,
        "max_budget_usd": None,
        "small_model": None,
        "append_system": beginning.sections.get("appended", "") if beginning is not None else "",
        "add_dirs": (),
        "provider": "scripted",
        "tool_format": provider.tool_format,
    }
    config = replace(config, **settings)
    bare = BareSession.create(config, home=home, cwd=cwd, provider=provider)
    given = {it.name: getattr(bare.context.session, it.name) for it in fields(Session) if it.init}
    session = ReplayedSession(**given)
    for entry in recording.transcript.entries:
        session.recorded[_entry_key(entry)].append(entry)
    bare.context.session = session
    provider.follow(home, bare.place.project, session.id, lambda: bare.context.sections)
    calls = (call for item in recording.transcript.items for call in item.calls)
    results = {call.call.id: call.result for call in calls if call.result is not None}
    player = _Player(bare=bare, provider=provider, session=session, results=results)
    try:
        first, *others = recording.turns
        await player.play_turn(first, in_new_process=True)
        for turn in others:
            provider.begin_turn(turn)
            await player.play_turn(turn, in_new_process=turn.begins_process)
        return provider
    finally:
        bare.context.session.close()


@dataclass(kw_only=True)
class _Player:
    bare: BareSession
    provider: RecordedProvider
    session: "ReplayedSession"
    results: Mapping[str, ToolResult]
    """Call id → its recorded result."""
    skills: str = ""
    """The recorded section on skills: the skills themselves are outside the project."""

    async def play_turn(self, turn: RecordedTurn, *, in_new_process: bool) -> None:
        """Plays one turn, after what the record has between it and the previous one; if
        `in_new_process`, with a new agent."""
        provider = self.provider
        adopted = [entry for entry in turn.before if entry.type in ADOPTED]
        self.session.append(*(e for e in adopted if not (in_new_process and e.type == "system")))
        self.bare.context.known_messages = 0
        if in_new_process:
            await self._begin_process(turn)
        elif any(entry.type == "system" for entry in adopted):
            await self.bare.open("resume")
        ended = await self.bare.turn(*_split_prompt(turn.prompt), provider.take_steering)
        if ended.status == "interrupted" and turn.end and turn.end.status != "interrupted":
            raise asyncio.CancelledError  # cancelled by the person now
        provider.end_turn(ended, self.session.messages)

    async def _begin_process(self, turn: RecordedTurn) -> None:
        """Creates a new agent, as a new process does: the system prompt is rendered again, and no
        file counts as read."""
        bare, provider, begun = self.bare, self.provider, self.provider.session_then.beginning
        specs = begun.tools if begun is not None else ()
        tools, memory = _recorded_tools(specs), CompactingMemory(provider)
        bare.staff(provider, tools, memory=memory, answer=self._answer_call)
        texts = (part for part in turn.prompt.parts if isinstance(part, Text))
        skills = (part.text for part in texts if part.section_name == "skills")
        self.skills = next(skills, self.skills)
        recorded, opening = {"skills": self.skills} if self.skills else {}, bare.agent.opening
        bare.agent = replace(bare.agent, opening=lambda window: {**recorded, **opening(window)})
        await bare.open("resume" if provider.steps else "start")

    async def _answer_call(self, action: Any, run: object) -> ToolOutput:
        """An `Around` that returns the recorded text; `ReplayedSession` puts in the whole result.
        Raises: CancelledError if the recorded call was interrupted or not run; ToolError."""
        result = self.results.get(action.call_id)
        if result is None:
            raise ToolError("The record has no result of this call.")
        self.session.answered.add(action.call_id)
        if result.cut in ("not_run", "interrupted"):
            raise asyncio.CancelledError
        return ToolOutput(text=result.text)


@dataclass
class ReplayedSession(Session):
    """A session whose entries get the recorded ids, so that references to them still work. The
    results of calls answered from the record, and compactions, are the recorded entries."""

    recorded: dict[str, deque[AnyEntry]] = field(default_factory=lambda: defaultdict(deque))
    """The recorded entries of each kind, in order."""
    answered: set[str] = field(default_factory=set)
    """Ids of the calls answered from the record; the engine made the results of all others."""

    def append(self, *entries: AnyEntry) -> None:
        """See `Session.append`."""
        super().append(*map(self._as_recorded, entries))

    def _as_recorded(self, entry: AnyEntry) -> AnyEntry:
        if not (queue := self.recorded[_entry_key(entry)]):
            return entry
        recorded = queue.popleft()
        parts = entry.parts if isinstance(entry, MessageEntry) else ()
        results = (part for part in parts if isinstance(part, ToolResult))
        is_answered = any(result.call_id in self.answered for result in results)
        if is_answered or entry.type == "compaction":
            return recorded
        return replace(entry, id=recorded.id)


class CompactingMemory(NullMemory):
    """Makes the agent compact wherever the record has a compaction before the next request."""

    def __init__(self, provider: RecordedProvider) -> None:
        self._provider = provider

    @property
    def message_window(self) -> int | None:
        """See `memory.contract.MemorySystem`."""
        return 0 if self._provider.upcoming_kinds()[:1] == ["compaction"] else None

    async def before_drop(self, messages: Sequence[Message], reason: Any) -> Any:
        """See `memory.contract.MemorySystem`."""
        drop = await super().before_drop(messages, reason)
        return drop if self.message_window is None else replace(drop, keep=0)


def _entry_key(entry: AnyEntry) -> str:
    """A key that an entry shares with its recorded counterpart; a result's key names its call."""
    if not isinstance(entry, MessageEntry) or entry.type == "context":
        return entry.type
    results = [part for part in entry.parts if isinstance(part, ToolResult)]
    is_of_memory = all(isinstance(p, Text) and p.source == "memory" for p in entry.parts)
    role = "memory" if is_of_memory else entry.role
    return f"result {results[0].call_id}" if results else f"message {role}"


def _recorded_tools(specs: Sequence[ToolSpec]) -> Sequence[Tool]:
    """kode's tools for the recorded ones; placeholders for those of a server or of memory."""

    async def run(context: object, arguments: Mapping[str, Any]) -> str:
        raise ToolError("A replay runs no call.")

    by_name = {tool.name: tool for tool in builtin_tools}
    tools: list[Tool] = []
    for spec in specs:
        recorded = Tool(
            name=spec.name,
            description=spec.description,
            effect="mcp",
            subject="",
            parallel=False,
            parameters=partial(dict, spec.parameters),
            check=dict,
            run=run,
        )
        _, names = VENDOR_TOOLS.get(spec.name, ("", (spec.name,)))
        tools += [by_name.get(name, recorded) for name in names]
    return tools or builtin_tools


def _split_prompt(prompt: MessageEntry) -> tuple[str, Sequence[Text | Image]]:
    """The person's words, and the other texts and images except the opening, made again here."""
    parts = [
        p
        for p in prompt.parts
        if isinstance(p, Image) or (isinstance(p, Text) and p.source != "opening")
    ]
    words = [part for part in parts if isinstance(part, Text) and not part.source][-1]
    return words.text, [part for part in parts if part is not words]


def main(argv: Sequence[str]) -> int:
    """Runs `kode replay` and returns its exit code: 0 if identical, 1 if different.

    Raises: UserError, SessionError, StorageError.
    """
    parser = Parser("kode replay", "Replay a session from its record, and compare its requests.")
    add = parser.add_argument
    add("session", metavar="SESSION", help="a session id, any unique prefix, or a cassette")
    add("--cwd", metavar="DIR", help="another folder with the project's files")
    add("--json", action="store_true", help="one JSON object")
    return asyncio.run(_run_replay(parser.parse(argv)))


async def _run_replay(arguments: argparse.Namespace) -> int:
    recording, cwd = _read_recording(arguments)
    if not cwd.is_dir():
        raise SessionError(
            f"{cwd}, where session {recording.header.id} worked, no longer exists. "
            "Name a folder with the same files: --cwd DIR."
        )
    config = load_config(kode_home(), cwd, environ=os.environ, flags={}).config
    with tempfile.TemporaryDirectory(prefix="kode-replay-") as home:
        replay = await replay_recording(recording, config, home=Path(home), cwd=cwd)
    print_either(
        _as_object(recording, replay), _describe(recording, replay), as_json=arguments.json
    )
    return int(not replay.is_same)


def _read_recording(arguments: argparse.Namespace) -> tuple[Recording, Path]:
    """The named session or cassette, and the folder to replay it in."""
    if not Path(arguments.session).is_file():
        session_id = find_session(kode_home(), arguments.session)
        recording = make_recording(Transcript.read(session_file(kode_home(), session_id)))
        named = working_directory(arguments) if arguments.cwd else None
        return recording, named or Path(recording.header.cwd)
    recording = read_cassette(Path(arguments.session))
    then, project = Path(recording.header.cwd), project_root(working_directory(arguments))
    is_inside = then.is_relative_to(recording.project) and ".." not in then.parts
    return recording, project / then.relative_to(recording.project) if is_inside else project


def _describe(recording: Recording, replay: RecordedProvider) -> Iterator[str]:
    """A line per step, the first difference as a diff, and notes."""
    header, steps = recording.header, replay.steps
    turns = plural(len({step.turn for step in steps}), "turn")
    yield f"Session {header.id}, {header.model}: {turns} replayed."
    width = max((len(step.summary) for step in steps), default=0)
    for step in steps:
        word = "differs" if step.differences else "same"
        names = ", ".join(dict.fromkeys(map(_name_difference, step.differences)))
        yield f"{step.number:>4}  {word:<7}  {step.summary:<{width}}  {names}".rstrip()
    for step in [step for step in steps if step.differences][:1]:
        first = step.differences[0]
        yield f"\nFirst difference: step {step.number}, {_name_difference(first)}\n{first.diff()}\n"
    yield from replay.notes
    same = sum(not step.differences for step in steps)
    yield (
        f"Identical: all {plural(len(steps), 'step')}."
        if replay.is_same
        else f"Differs: {same} of {plural(recording.steps, 'step')} as recorded."
    )


def _as_object(recording: Recording, replay: RecordedProvider) -> dict[str, Any]:
    steps = [
        {
            "step": step.number,
            "turn": step.turn,
            "what": step.summary,
            "same": not step.differences,
            "differences": [
                {"part": each.part, "name": each.name, "diff": each.diff()}
                for each in step.differences
            ],
        }
        for step in replay.steps
    ]
    return {
        "session_id": recording.header.id,
        "identical": replay.is_same,
        "steps": steps,
        "notes": replay.notes,
    }


def _name_difference(difference: RequestDifference) -> str:
    """Which part differs: `system: instructions`, `result: shell`."""
    return f"{difference.part}: {difference.name}"
