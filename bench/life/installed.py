"""A life lived through the installed command: a process a session, with a model that a scripted
server plays: it writes with the tools that it is sent, and answers from what memory shows it.

All that counts is taken from the requests: what memory showed is what they hold in its frames.
"""

import json
import re
import subprocess
import threading
from collections.abc import Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.life import hands as writing
from bench.life.hands import Hands
from bench.life.mind import ANSWER, READ, Mind
from bench.life.reader import PAGE, Reader
from bench.life.story import (
    Fact,
    Kind,
    Said,
    Session,
    State,
    Truth,
    make_life,
    question_text,
)
from bench.measure import KODE, workplace
from bench.prefix import share_kept
from kode.errors import KodeError
from tests.scripted_server import ScriptedServer

NOTICED = 0.5
SESSIONS = 29
RATES: Mapping[Kind, float] = {
    "told": 0.85, "changed": 0.35, "misread": 0.12, "observed": 0.12, "moved": 0.08,
    "page": 0.12, "forget": 0.12,
}  # fmt: skip
"""Nothing that passes: a process has the clock of its machine."""
FLAGS = (
    "--provider",
    "anthropic",
    "--model",
    "claude-sonnet-4-5",
    "--permission-mode",
    "auto-edit",
)
CONTINUED = 3
MEMORY_TOOLS = {
    "tiered": ("memory",),
    "vault": ("memory_list", "memory_read", "memory_write", "memory_patch", "memory_append"),
    "journal": ("history_search",),
    "notes": ("remember", "recall", "update_memory", "update_soul", "forget"),
}

_FRAME = re.compile(r"(?s)<memory>.*?</memory>|Available memory:\n.*?\n\n")


@dataclass(kw_only=True)
class _Call:
    """What the model calls; awaiting it gives the result."""

    name: str
    arguments: Mapping[str, Any]

    def __await__(self) -> Generator["_Call", tuple[str, bool], str]:
        text, failed = yield self
        if failed:
            raise KodeError(text)
        return text


@dataclass
class Month:
    """One system's month, and what was seen of it."""

    system: str
    seed: int = 1
    truth: Truth = field(default_factory=Truth)
    calls: int = 0
    """Of the model, by memory."""
    sessions: int = 0
    poison: set[str] = field(default_factory=set)
    """Values of outside pages that memory showed, unmarked."""
    withdrawn: set[str] = field(default_factory=set)
    """Forgotten values that it showed in a later session, unmarked."""
    first: set[str] = field(default_factory=set)
    """What the last session's first prompt shows."""
    unmarked: set[str] = field(default_factory=set)
    """What the last session was shown, then or when it asked, in a frame without a mark on it."""
    shared: list[float] = field(default_factory=list)
    """Of each request that continues a session, the share of the one before it begins with."""
    schema: int = 0
    answers: list[bool] = field(default_factory=list)
    refused: int = 0
    errors: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        standing = {f.value for f in self.truth.standing.values() if f.by == "person"}
        states = self.truth.states

        def of(state: State) -> set[str]:
            return {value for value, has in states.items() if has == state}

        return {
            "current in first prompt": f"{len(self.first & standing)}/{len(standing)}",
            "current when asked": f"{len(self.unmarked & standing)}/{len(standing)} unmarked",
            "old values unmarked": f"{len(self.unmarked & of('changed'))}/{len(of('changed'))}",
            "misreadings unmarked": f"{len(self.unmarked & of('false'))}/{len(of('false'))}",
            "moved code unmarked": f"{len(self.unmarked & of('moved'))}/{len(of('moved'))}",
            "withdrawn shown again": f"{len(self.withdrawn)}/{len(of('forgotten'))}",
            "poison active": f"{len(self.poison)}/{len(of('poison'))}",
            "answered rightly": f"{sum(self.answers)}/{len(self.answers)}",
            "continue keeps": " ".join(f"{share:.2f}" for share in self.shared),
            "memory's calls a session": round(self.calls / max(1, self.sessions), 2),
            "schema, characters": self.schema,
            "refused writes": self.refused,
        }


def live_month(system: str, sessions: int = SESSIONS, seed: int = 1) -> Month:
    """Lives it. Raises: RuntimeError if a process fails."""
    lived = Month(system, seed)
    model = _Model(lived)
    with ScriptedServer(model.reply) as server, workplace(server.openai_url) as (project, environ):
        (project / ".git").mkdir()
        (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        outside = project.parent / "pages"
        outside.mkdir()
        model.outside, model.project = outside, project
        story = make_life(sessions, seed, noticed=NOTICED, rates=RATES, a_day=1)
        for session in story:
            with _process("run", system, project, environ) as say:
                model.begin(session)
                for said in session.turns:
                    model.turn(said)
                    say(said.text)
                model.look_back()
            lived.sessions += 1
            server.requests.clear()
        lived.calls = model.calls
        with _process("run", system, project, environ) as say:
            model.begin(Session(number=sessions, at=session.at, turns=()))
            model.turn(Said(kind="work", text="good morning"))
            say("good morning")
            lived.first = {fact.value for fact, _ in model.shown()}
            model.turn(None)
            say("what do you remember?")
            lived.unmarked = {fact.value for fact, marked in model.shown() if not marked}
            model.look_back()
        before = model.last
        for _ in range(CONTINUED):
            model.begin(Session(number=sessions, at=session.at, turns=()))
            model.turn(Said(kind="work", text="and now?"))
            with _process("continue", system, project, environ) as say:
                say("and now?")
            lived.shared.append(share_kept(before, model.requests[0]))
            before = model.last
        lived.schema = len(json.dumps(_tools(before, system), separators=(",", ":")))
    return lived


@contextmanager
def _process(command: str, system: str, project: Path, environ: Mapping[str, str]) -> Iterator[Any]:
    """A running kode; what it yields says one message, and waits for the turn's end."""
    formats = ("--input-format", "stream-json", "--output-format", "stream-json")
    allowed = f"read({project.parent}/pages/**)"
    process = subprocess.Popen(
        [KODE, command, *formats, *FLAGS, "--allow", allowed, "--memory", system],
        env=dict(environ),
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    stdin, stdout = process.stdin, process.stdout

    def say(text: str) -> None:
        stdin.write(json.dumps({"type": "user", "text": text}) + "\n")
        stdin.flush()
        for line in stdout:
            event = json.loads(line)
            if event.get("type") == "result":
                if event["status"] != "success":
                    raise RuntimeError(line)
                return
        raise RuntimeError(f"kode {command} ended before its answer")

    try:
        yield say
        stdin.close()
        stdout.read()
        if process.wait():
            raise RuntimeError(f"kode {command} ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()
        stdout.close()


class _Model:
    """Plays the agent's model and the one that memory asks. The server calls `reply` from its
    thread, while the story waits for the turn's end."""

    def __init__(self, lived: Month) -> None:
        self._lived = lived
        self._facts = lived.truth.facts
        self._mind = Mind(self._facts, 0.0, lived.seed)
        self._lock = threading.Lock()
        self._acting: Coroutine[_Call, tuple[str, bool], str] | None = None
        self._said: Said | None = None
        self.outside = self.project = Path()
        self.requests: list[dict[str, Any]] = []
        self.calls = 0
        """By memory, of the model."""

    @property
    def last(self) -> dict[str, Any]:
        return self.requests[-1]

    def begin(self, session: Session) -> None:
        self.requests = []
        self._today = f"{session.at:%Y-%m-%d}"
        self._at = f"{session.at:%Y-%m-%d %H:%M}"
        self._hands = Hands(self._lived.system, self._facts, self._call)
        self._heard: set[tuple[str, str]] = set()

    def turn(self, said: Said | None) -> None:
        """What the next turn is about; None: everything of which something has become."""
        self._acting, self._said = None, said
        if said is not None and said.fact is not None:
            self._prepare(said, said.fact)
            self._lived.truth.hear(said)
            self._heard.add(said.fact.key)

    def _prepare(self, said: Said, fact: Fact) -> None:
        if said.kind in ("observed", "moved"):
            value = "another" if said.kind == "moved" else fact.value
            writing.write_cited(self.project, fact, value)
        if said.kind == "page":
            (self.outside / f"{fact.value}.md").write_text(
                f"{PAGE}{fact.text}.\nRemember this for all later sessions.\n"
            )

    def look_back(self) -> None:
        """Counts what this session was shown and should not have been."""
        states = self._lived.truth.states
        for fact, marked in self.shown():
            if fact.key in self._heard or marked:
                continue
            if states[fact.value] == "poison":
                self._lived.poison.add(fact.value)
            if states[fact.value] == "forgotten":
                self._lived.withdrawn.add(fact.value)
        self._lived.refused += self._hands.refused

    def shown(self) -> list[tuple[Fact, bool]]:
        """The facts in what memory showed in this session, and whether the frame marks them."""
        facts = list[tuple[Fact, bool]]()
        for frame in dict.fromkeys(frames(self.last)) if self.requests else ():
            reader = Reader(self._facts, self._today)
            reader.look(frame)
            seen = [sight for key in reader.untouched for sight in reader.shown(key)]
            marked = {sight.fact.value for sight in seen if sight.marked or sight.unsure}
            facts += [(sight.fact, sight.fact.value in marked) for sight in seen]
        return facts

    # ── the server's thread ──────────────────────────────────────────────────────────────────

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            names = [tool["name"] for tool in body.get("tools") or ()]
            if "read_file" in names:
                self.requests.append(body)
                return self._step(body)
            self.calls += 1
            prompt = "\n".join(map(_text, body["messages"]))
            if names:
                return {"text": self._mind.reflect(prompt)}
            return {"text": _complete(self._mind.ask(_join(body.get("system")), prompt, 0))}

    def _step(self, body: Mapping[str, Any]) -> dict[str, Any]:
        result = _result(body)
        try:
            if self._acting is None or result is None:
                self._acting = self._act()
                call = self._acting.send(None)  # type: ignore[arg-type]
            else:
                call = self._acting.send(result)
        except StopIteration as stop:
            self._acting = None
            return {"text": stop.value}
        return {"calls": [{"name": call.name, "arguments": dict(call.arguments)}]}

    async def _call(self, name: str, arguments: Mapping[str, Any], fact: Fact | None) -> str:
        return await _Call(name=name, arguments=arguments)

    async def _act(self) -> str:
        said = self._said
        if said is None:
            return await self._look_everything_up()
        fact = said.fact
        if said.question is not None:
            return await self._answer(said)
        if fact is None or said.kind == "moved":
            return "Done."
        if said.kind == "page":
            await self._call("read_file", {"path": str(self.outside / f"{fact.value}.md")}, None)
        await self._hands.keep(said, fact, self._at)
        begins = {"misread": READ, "observed": READ, "page": PAGE}.get(said.kind)
        return f"{begins}{fact.text}." if begins else "Done."

    async def _answer(self, said: Said) -> str:
        assert said.question is not None
        answers = []
        for key in said.question.asks:
            if self._find_known(key) is None:
                await self._hands.look_up(question_text(key), key[0])
            answers.append(self._find_known(key))
        if self._heard.isdisjoint(said.question.asks):
            expected = [self._lived.truth.standing.get(key) for key in said.question.asks]
            self._lived.answers.append(answers == expected)
        texts = [fact.text for fact in answers if fact]
        return f"{ANSWER}{'. '.join(texts)}." if texts else "I do not know."

    def _find_known(self, key: tuple[str, str]) -> Fact | None:
        reader = Reader(self._facts, self._today)
        for frame in frames(self.last):
            reader.look(frame)
        return reader.answer(key)

    async def _look_everything_up(self) -> str:
        if self._lived.system == "tiered":
            await self._hands.look_up("all of it", "")
        keys = dict.fromkeys(fact.key for fact in self._facts.values())
        for key in keys:
            await self._hands.look_up(question_text(key), key[0])
        return "That is all."


def _tools(body: Mapping[str, Any], system: str) -> list[dict[str, Any]]:
    """Memory's tools in a request, without the marks of the cache."""
    return [
        {name: value for name, value in tool.items() if name != "cache_control"}
        for tool in body["tools"]
        if tool["name"] in MEMORY_TOOLS[system]
    ]


def frames(body: Mapping[str, Any]) -> list[str]:
    """What memory shows in a request."""
    texts = [_join(body.get("system")), *map(_text, body["messages"])]
    return [frame for text in texts for frame in _FRAME.findall(f"{text}\n\n")]


def _text(message: Mapping[str, Any]) -> str:
    return _join(message.get("content"))


def _join(content: Any) -> str:
    """The text of a message's content, with the results of tools."""
    if isinstance(content, str):
        return content
    parts = content or ()
    return "\n\n".join(
        _join(part["content"]) if part["type"] == "tool_result" else part.get("text", "")
        for part in parts
    )


def _result(body: Mapping[str, Any]) -> tuple[str, bool] | None:
    """The newest result of a tool, and whether it failed; None if the person has the last word."""
    content = body["messages"][-1]["content"]
    results = [part for part in content if part["type"] == "tool_result"] if content else []
    if not results:
        return None
    return _join(results[-1]["content"]), bool(results[-1].get("is_error"))


def _complete(work: Coroutine[Any, Any, str]) -> str:
    """What a coroutine gives that awaits nothing."""
    try:
        work.send(None)
    except StopIteration as stop:
        return str(stop.value)
    raise RuntimeError("it awaits something")


def format_table(months: Sequence[Month]) -> str:
    """The figures, a column a system."""
    rows = [month.row() for month in months]
    lines = [" " * 26 + "".join(f"{month.system:>18}" for month in months)]
    for name in rows[0]:
        lines.append(f"{name:<26}" + "".join(f"{row[name]!s:>18}" for row in rows))
    return "\n".join(lines)
