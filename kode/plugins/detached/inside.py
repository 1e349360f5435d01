"""The prompt of a session in the background: the ordinary one, with a companion.

The companion writes what the session does to `state.json`, takes answers and messages that come
from elsewhere, and ends the session once it has nothing to do and nobody is attached.
"""

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kode.plugin import (
    Answer,
    Event,
    KodeError,
    PluginSession,
    Question,
    RunOptions,
    StorageError,
    Transcript,
    TurnEnded,
    kode_home,
    open_prompt,
    session_file,
    shorten,
)
from kode.plugins.detached import REPORTERS, holder, places
from kode.plugins.detached.places import SessionState, Spec

LOOKS_EVERY_S = 0.5
"""How often the companion checks whether there is anything left to do."""

QUESTION_FIELDS = ("tool", "title", "subject", "preview", "reason", "dangers")
"""The fields of a question that are written to the state."""

RESULT_CHARS = 2000
"""How much of an answer the state keeps; the session has all of it."""


@dataclass(kw_only=True)
class Companion:
    """Reports the state of a prompt, and lets it be answered without its terminal."""

    folder: Path
    options: RunOptions
    state: SessionState
    tty: str
    """The terminal that the person started the session in, to notify them; "" for none."""
    frames: socket.socket
    """Frames from the holder: answers, messages, attached terminals. Closed if it is gone."""
    opened: PluginSession | None = None
    prompt: Any = None
    """The open prompt; set, like `opened`, by `begin`."""
    watching: int = 0
    questions: int = 0
    """How many questions were asked so far."""
    waiting: "dict[int, tuple[Question, asyncio.Future[Answer]]]" = field(default_factory=dict)
    """Unanswered questions by number; the first is the one that is shown."""
    tasks: "tuple[asyncio.Task[None], ...]" = ()

    def begin(self, opened: PluginSession) -> "Companion":
        """Called in the event loop of the prompt, once the session is open."""
        self.opened, self.prompt = opened, self.options.prompt
        self.tasks = tuple(map(asyncio.ensure_future, (self._receive(), self._end_if_idle())))
        if question := self.state.question:  # it waited for the answer when it was killed
            what = shorten(f"{question['title']}: {question['subject']}", 1000)
            opened.notice(f"It was killed before you had answered; this did not run: {what}")
            opened.tell_model(f"[kode ended before the person had answered. Not run: {what}]")
        self.report(doing="works", question=None)
        return self

    def __call__(self, event: Event) -> None:
        if event.type == "turn_started":
            self.report(doing="works")
        elif isinstance(event, TurnEnded):
            before = self.state.cost_usd if self.state.turns else 0.0
            cost = None if before is None or event.cost_usd is None else before + event.cost_usd
            self.report(
                **places.describe_outcome(event),
                doing="works",
                turns=self.state.turns + 1,
                result=event.result[:RESULT_CHARS],
                cost_usd=cost,
                files=tuple(dict.fromkeys((*self.state.files, *event.files_changed))),
            )

    def report(self, **changes: Any) -> None:
        """Writes the state if it changed; ignores a failure, so that the session can go on."""
        if self.opened is not None and self.opened.session.id:
            changes["session"] = self.opened.session.id
        if changes.get("doing", self.state.doing) != self.state.doing:
            changes["since"] = time.time()
        state = self.state.model_copy(update=changes)
        if state != self.state:
            self.state = state
            with contextlib.suppress(StorageError):
                places.write_state(self.folder, state)

    def run(self, **prompt: Any) -> int:
        """Opens the prompt, and reports its end. Returns its exit status. Raises: KodeError."""
        REPORTERS.append(self.begin)
        error = ""
        try:
            return open_prompt(self.options, **prompt)
        except BaseException as fault:
            failed = "kode failed; `kode doctor` names the report."
            error = str(fault) if isinstance(fault, KodeError) else failed
            raise
        finally:
            ended = self.options.prompt and self.options.prompt.screen.ended
            outcome = places.describe_outcome(ended) if ended else {"status": "interrupted"}
            outcome = {"status": "error", "error": error} if error else outcome
            self.report(doing="ended", question=None, **outcome)

    async def aclose(self) -> None:
        for task in self.tasks:
            task.cancel()

    async def ask(self, question: Question) -> Answer:
        """Puts a question into the state, notifies the person, and waits without a time limit."""
        self.questions += 1
        number, future = self.questions, asyncio.get_running_loop().create_future()
        self.waiting[number] = question, future
        self._report_question()
        self._notify_person()
        try:
            answer: Answer = await future
            return answer
        finally:
            del self.waiting[number]
            self._report_question()

    def _report_question(self) -> None:
        for number, (question, _) in self.waiting.items():
            values = {name: getattr(question, name) for name in QUESTION_FIELDS}
            self.report(doing="asks", question={"number": number, **values})
            return
        self.report(doing="works", question=None)

    async def _receive(self) -> None:
        """Handles the frames of the holder; once it is gone, makes the prompt end."""
        reader, _ = await asyncio.open_unix_connection(sock=self.frames)
        with contextlib.suppress(*holder.DISCONNECTS):
            while True:
                kind, payload = await holder.read_frame(reader)
                if kind == holder.ANSWER:
                    self._accept_answer(json.loads(payload))
                elif kind == holder.MESSAGE and self.prompt.send(payload.decode()):
                    self.report(received=self.state.received + 1)
                elif kind == holder.VIEWERS:
                    self.watching = payload[0]
                    self.prompt.screen.watched = self.watching > 0
        self.prompt.leave()

    def _accept_answer(self, answer: Any) -> None:
        """Answers a waiting question, with `once` or `no`: anything lasting must be answered at the
        prompt. Ignores invalid answers, and a yes to a form, which would lack its fields."""
        match answer:
            case {"number": int(number), "choice": "once" | "no" as choice, "message": str(text)}:
                question, future = self.waiting.get(number, (None, None))
                is_form = question is not None and question.tool == "form"
                if future and not future.done() and not (is_form and choice == "once"):
                    future.set_result(Answer(choice=choice, message=text))

    async def _end_if_idle(self) -> None:
        """Ends the prompt once it has nothing to do and no terminal is attached."""
        while True:
            await asyncio.sleep(LOOKS_EVERY_S)
            if self.waiting:
                continue
            if self.prompt.is_busy:
                self.report(doing="works")
                continue
            ended = self.prompt.screen.ended  # of all turns of a task
            self.report(doing="idle", **(places.describe_outcome(ended) if ended else {}))
            if not self.watching:
                self.prompt.leave()
                return

    def _notify_person(self) -> None:
        """Notifies the person in the terminal they started from, unless a terminal is attached."""
        notifies = self.opened is not None and self.opened.config.repl.notify
        if notifies and self.tty and not self.watching:
            self.prompt.screen.notify(self.tty)


def parse_options(spec: Spec) -> RunOptions:
    """Parses the command line of a session, after changing to the folder where it was typed, as its
    flags may name files. Raises: ConfigError for flags of another version of kode."""
    with contextlib.suppress(OSError):  # gone meanwhile
        os.chdir(spec.here or spec.cwd)
    options = RunOptions.parse(spec.words)
    options.task, options.piped = spec.task, spec.piped
    options.arguments.cwd, options.arguments.session_id = spec.cwd, spec.id
    # The worktree exists already; the session gets its name unless it has one.
    options.arguments.name = options.arguments.name or vars(options.arguments).get("worktree")
    options.arguments.worktree = None
    return options


def main(argv: Sequence[str]) -> int:
    """Runs the prompt, which resumes the session if that exists. `argv` is the folder, and the file
    descriptors of frames, lock and spec. Returns the exit status. Raises: KodeError."""
    folder, numbers = Path(argv[0]), [int(number) for number in argv[1:4]]
    for number in numbers:
        os.set_inheritable(number, False)
    frames, _, source = numbers
    with open(source, "rb") as file:
        spec = Spec.model_validate_json(file.read())  # with credentials, unlike the one on disk
    background, options = places.find_background(kode_home(), spec.id), parse_options(spec)
    session, resumed = session_file(kode_home(), background.session_id), {}
    if session.exists():
        options.arguments.session_id, resumed = None, {"session_id": background.session_id}
        if any(turn.number for turn in Transcript.read(session).turns):
            options.task = ""
    companion = Companion(
        folder=folder,
        options=options,
        state=background.state,
        tty=spec.tty,
        frames=socket.socket(fileno=frames),
    )
    return companion.run(answerer=companion.ask, **resumed)
