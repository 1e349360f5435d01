"""The conversations that a client drives, and the sessions on disk that it may see. A client acts
for the person who started the server, so the server's flags and the person's settings limit its
folders, mode, nesting and cost.

Nothing here knows the protocol: `server` turns it into tools.
"""

import asyncio
import contextlib
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kode.plugin import (
    Answer,
    Conversation,
    ConversationSettings,
    Event,
    KodeError,
    PermissionMode,
    Question,
    Text,
    Transcript,
    TurnEnded,
    UserError,
    describe_event,
    describe_fault,
    expand_path,
    find_session,
    kode_home,
    list_sessions,
    load_config,
    open_conversation,
    project_root,
    real_path,
    session_file,
    shorten,
    visible,
)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    roots: tuple[Path, ...]
    """The folders that sessions may work in; absolute, links resolved."""
    depth: int = 0
    """How many kode processes this one is nested in, from `KODE_DEPTH`."""

    def contains(self, folder: Path) -> bool:
        """Whether a path is a root or below one; its links must be resolved already."""
        return any(folder.is_relative_to(root) for root in self.roots)

    def resolve_folder(self, cwd: str) -> Path:
        """The folder that `cwd` names, with links resolved. Raises: UserError if it is missing or
        outside all roots."""
        try:
            folder = expand_path(cwd).resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(f"{cwd} does not exist. Give the absolute path of a folder.") from error
        if not folder.is_dir():
            raise UserError(f"{cwd} is not a folder. Give the folder to work in.")
        if not self.contains(folder):
            allowed = ", ".join(map(str, self.roots))
            raise UserError(
                f"{folder} is outside the folders this server may work in ({allowed}). The person "
                f"can allow it by starting it as `kode mcp serve --root {folder}`."
            )
        return folder

    def make_settings(
        self,
        cwd: Path,
        *,
        mode: PermissionMode | None = None,
        model: str | None = None,
        max_steps: int | None = None,
        max_budget_usd: float | None = None,
    ) -> Any:
        """The person's settings for a session in `cwd`, changed by the wishes of the client (None
        for no wish), which can lower limits but not raise them.

        Raises: UserError for what the server does not allow; ConfigError.
        """
        loaded = load_config(kode_home(), cwd, environ=os.environ, flags={})
        config = loaded.config
        deeper = config.subagent.max_depth - self.depth
        if deeper < 0:
            raise UserError(
                f"This kode was started inside {self.depth} others, and `subagent.max_depth` is "
                f"{config.subagent.max_depth}: do the work in the session that you are."
            )
        mode = self.choose_mode(mode, config.permissions.mode, cwd)
        budgets = [usd for usd in (max_budget_usd, config.max_budget_usd) if usd is not None]
        config = replace(
            config,
            permissions=replace(config.permissions, mode=mode),
            subagent=replace(config.subagent, max_depth=deeper),
            max_steps=min(max_steps or config.max_steps, config.max_steps),
            max_budget_usd=min(budgets, default=None),
            model=model or config.model,
        )
        return replace(loaded, config=config)

    def choose_mode(
        self, wished: PermissionMode | None, configured: PermissionMode, cwd: Path
    ) -> PermissionMode:
        """The mode of a session in `cwd`: the wish, or else the `configured` mode, or `ask` if that
        is looser than this server allows. Raises: UserError if the wish is looser."""
        mode, project = wished or configured, project_root(cwd)
        is_looser = mode == "auto-edit" and not self.contains(Path(real_path(project)))
        if is_looser and wished:
            raise UserError(
                f"In mode auto-edit commands may change all of the repository {project}, which is "
                "more than this server may work in. Use mode ask, or the person starts it as "
                f"`kode mcp serve --root {project}`."
            )
        return "ask" if is_looser or mode == "full" else mode


MAX_OPEN = 16  # each has a session and may have subagents and servers
CLIENT = "a client of kode's MCP server"
"""The speaker in these sessions is no person, so what they add to memory waits for approval."""
MAX_LINES = 500  # of one state; a client that waits gets them sooner
LINE_CHARS = 300  # a call with its subject
BEGIN_WAIT_S = 10.0  # most hooks have run by then
RESULT_KEYS = (
    "status result error steps cost_usd files_changed denials refused checks untrusted"
).split()
"""The fields of a result that a client gets; empty ones are left out."""
FOR_THE_PERSON = (
    "Memory and what is trusted of a repository are for the person to change, at their own terminal"
)


@dataclass
class OpenQuestion:
    """A question that waits for an answer."""

    id: str
    question: Question
    answer: "asyncio.Future[Answer]"
    form: Literal["", "shown", "closed"] = ""
    """Of the form for the client's person; "" for none. Once closed, only `kode_answer` helps."""


@dataclass
class ServedSession:
    """A session of a client; created before its conversation, whose opening may emit events."""

    conversation: Conversation = field(init=False)
    lines: list[str] = field(default_factory=list)
    """What has happened in the session so far, a line each."""
    activity: str = ""
    """The call or wait that runs now, in words; "" for none."""
    question: OpenQuestion | None = None
    ended: TurnEnded | None = None
    """How its last turn ended."""
    turn: "asyncio.Task[None] | None" = None
    messages: list[str] = field(default_factory=list)
    """What the client said during the running turn and the model has not got yet."""
    _questions: int = 0
    _one_question: asyncio.Lock = field(default_factory=asyncio.Lock)
    _begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the text of the last turn is on disk, or will never be."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def status(self) -> str:
        """`working`, `asks`, `done`, or `idle` if no turn has run since the session was opened."""
        if self.question is not None:
            return "asks"
        if self.turn is not None and not self.turn.done():
            return "working"
        return "done" if self.ended is not None else "idle"

    def note_event(self, event: Event) -> None:
        """Adds an event to the progress; the session's `Emit`."""
        if event.type == "turn_started":
            self._begun.set()
        line = describe_event(event, LINE_CHARS)
        if event.type == "replied":
            parts = event.message.parts
            if any(part.type == "tool_call" for part in parts):
                text = " ".join(part.text for part in parts if part.type == "text")
                self.lines += filter(None, [shorten(text, LINE_CHARS)])
        elif line is not None and line.mark == "…":
            self.activity = line.text
        elif line is not None:
            self.activity = ""
            self.lines.append(shorten(f"{line.mark} {line.text}", LINE_CHARS))
        self._wake_waiters()

    async def ask(self, question: Question) -> Answer:
        """Puts a question to the client; the session's `Ask`. Refuses questions about memory and
        about permanent trust, which only the person may answer."""
        if question.until_changed or question.kind.startswith("memory"):
            return Answer(choice="no", message=FOR_THE_PERSON)
        async with self._one_question:
            self._questions += 1
            answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            self.question = OpenQuestion(f"q{self._questions}", question, answer)
            self._wake_waiters()
            try:
                return await answer
            finally:
                self.question = None
                self._wake_waiters()

    def take_steering(self) -> list[Text]:
        """Returns and removes what the client said meanwhile, marked as typed by no person."""
        messages, self.messages = self.messages, []
        return [Text(text=message, typed="") for message in messages]

    async def send(self, text: str) -> None:
        """Starts a turn. Returns when the text is on disk, the turn has failed, or `BEGIN_WAIT_S`
        have passed, as during a slow hook. If a turn runs already, hands the text to the model
        with its next step instead."""
        if self.turn is not None and not self.turn.done():
            self.messages.append(text)
            return
        self.ended, self._begun = None, asyncio.Event()
        self.turn = asyncio.create_task(self._run_turns(text))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._begun.wait(), BEGIN_WAIT_S)

    def answer(self, question_id: str, answer: Answer) -> None:
        """Answers a question. Raises: UserError for an answer that is not offered, or an unknown
        question."""
        waiting = self.question
        if waiting is None or waiting.id != question_id:
            raise UserError(f"{question_id} is not an open question: `kode_wait` lists those.")
        if answer.choice == "session" and not waiting.question.rules:
            raise UserError("This one cannot be remembered: answer `once` or `no`.")
        waiting.answer.set_result(answer)
        self.question = None
        self._wake_waiters()

    async def wait(self, until: float) -> None:
        """Returns when the turn ends, when it asks a question that no form shows, or at the time
        `until` of the loop's clock."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while self.status == "working" or (self.question and self.question.form == "shown"):
                    await self._changed.wait()

    def note_form(self, question: OpenQuestion, form: Literal["shown", "closed"]) -> None:
        """Records that the client's person is being shown a question as a form, or closed it."""
        question.form = form
        self._wake_waiters()

    async def stop(self) -> None:
        """Interrupts the running turn, drops waiting messages, and waits for the turn's end."""
        self.messages.clear()
        while self.turn is not None and not self.turn.done():
            self.turn.cancel()
            await asyncio.wait([self.turn])

    async def close(self) -> None:
        """Stops the turn and closes the conversation, which gives memory time to finish."""
        await self.stop()
        await self.conversation.close()

    def state(self, cursor: int) -> dict[str, Any]:
        """What a client may know, with the progress from `cursor` on (the last `MAX_LINES`)."""
        state: dict[str, Any] = {
            "session": self.conversation.session.id,
            "status": self.status,
            "cursor": len(self.lines),
            "progress": self.lines[max(cursor, 0) :][-MAX_LINES:],
        }
        if self.activity and self.status == "working":
            state["now"] = self.activity
        if self.status == "done" and self.ended is not None:
            whole = self.conversation.result_object(self.ended)
            result = {key: whole[key] for key in RESULT_KEYS if whole[key] not in (None, [], "")}
            state["result"] = result
        return state

    async def _run_turns(self, text: str) -> None:
        """Runs a turn, then others for what the client said too late for the one before."""
        while text:
            try:
                self.ended = await self.conversation.turn(
                    text, steering=self.take_steering, typed=""
                )
            except asyncio.CancelledError:
                self.ended = TurnEnded(status="interrupted", error="Stopped.")
            except KodeError as error:
                self.ended = TurnEnded(status="error", error=str(error), setting=error.setting)
            except Exception as error:
                self.ended = TurnEnded(status="error", error=describe_fault(error))
            self.activity = ""
            messages = self.take_steering() if self.ended.is_finished else []
            text = "\n\n".join(message.text for message in messages)
        self._begun.set()
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


@dataclass
class ServedSessions:
    bounds: Bounds
    opened: dict[str, ServedSession] = field(default_factory=dict)
    """By session id."""
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def start(self, cwd: str, **wishes: Any) -> ServedSession:
        """Starts a session in `cwd`; `wishes` go to `Bounds.make_settings`. Raises: UserError,
        StorageError."""
        async with self._opening:
            return await self._open(self.bounds.resolve_folder(cwd), None, **wishes)

    async def find_or_open(self, session: str) -> ServedSession:
        """Returns the session with this id or prefix, and opens it from disk if it is not open.

        Raises: UserError, also for a session outside the roots; SessionError; BusyError if another
        process has it open.
        """
        async with self._opening:
            id = find_session(kode_home(), session)
            cwd = Transcript.read(session_file(kode_home(), id)).header.cwd
            self.bounds.resolve_folder(cwd)
            return self.opened.get(id) or await self._open(Path(cwd), id)

    def find(self, session: str) -> ServedSession:
        """The one open session whose id begins so. Raises: UserError for none or several."""
        ids = [id for id in self.opened if session and id.startswith(session)]
        if len(ids) == 1:
            return self.opened[ids[0]]
        raise UserError(
            f"No session {session[:80]!r} is open here: `kode_sessions` lists them, and "
            "`kode_reply` opens one that is closed."
        )

    async def close(self, served: ServedSession) -> None:
        """Closes a session; it can be resumed, also by `kode continue`."""
        self.opened.pop(served.conversation.session.id or "", None)
        await served.close()

    async def close_all(self) -> None:
        """Closes all sessions at once. If cancelled, memory leaves its work for the next start."""
        endings = [asyncio.create_task(served.close()) for served in self.opened.values()]
        try:
            await asyncio.gather(*endings, return_exceptions=True)
        finally:
            await asyncio.gather(*endings, return_exceptions=True)

    def list_rows(self, limit: int) -> list[dict[str, Any]]:
        """At most `limit` sessions below the roots, last used first, as JSON objects."""
        rows: list[dict[str, Any]] = []
        for session in list_sessions(kode_home()):
            served = self.opened.get(session.id)
            is_own = bool(session.cwd) and not session.parent
            may_see = is_own and self.bounds.contains(Path(real_path(session.cwd)))
            if len(rows) < limit and may_see and (served or session.turns):
                row = {
                    "session": session.id,
                    "status": served.status if served is not None else "closed",
                    "cwd": visible(session.cwd),
                    "task": visible(session.task),
                    "turns": session.turns,
                    "updated_at": session.updated_at,
                    "model": visible(session.model),
                }
                rows.append(row)
        return rows

    async def _open(self, cwd: Path, session_id: str | None, **wishes: Any) -> ServedSession:
        if len(self.opened) >= MAX_OPEN:
            raise UserError(f"{MAX_OPEN} sessions are open here: `kode_stop` one of them first.")
        loaded = self.bounds.make_settings(cwd, **wishes)
        served = ServedSession()
        settings = ConversationSettings(loaded, emit=served.note_event, ask=served.ask)
        served.conversation = await open_conversation(settings, cwd=cwd, session_id=session_id)
        session = served.conversation.session
        assert session.id is not None
        try:
            served.conversation.mark_outside(CLIENT)
        except BaseException:
            await served.conversation.close()
            raise
        self.opened[session.id] = served
        return served
