"""The main path of the installed command against servers as strict as the vendors': nothing is
refused, and what came goes back unchanged (a soft fault would say so; thinking behind a changed
beginning is left out on purpose).

The rules are in `tests/strict_server`. A session lives through what sessions live through: calls,
further processes, a kill, memory written meanwhile, another day's mode, another model and back,
old output dropped, a compaction, a rewind, a subagent, an answer by a schema.
"""

import base64
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.prefix import asks_for_note
from kode.subagents.records import ChildRecord, read_records
from tests.e2e.command import Finished, Place
from tests.pictures import png
from tests.strict_server import Asked, StrictServer

SHOT = png(7, 5)
SCHEMA = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "required": ["count"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Route:
    """A way to a model: the provider as a person names it, and another model for a turn."""

    vendor: str
    model: str
    other: str
    provider: str = ""
    api: str = "auto"

    @property
    def name(self) -> str:
        return self.provider or self.vendor


ROUTES = {
    "responses": Route("openai", "gpt-6.1-sol", "gpt-5.4"),
    "messages, bound thinking": Route("anthropic", "claude-sonnet-5-5", "claude-opus-4-8"),
    "messages, adaptive": Route("anthropic", "claude-opus-4-8", "claude-haiku-4-5"),
    "messages, budget": Route("anthropic", "claude-sonnet-4-5", "claude-opus-5-5"),
    "gemini": Route("gemini", "gemini-3.1-pro-preview", "gemini-3.8-flash"),
    "deepseek": Route("deepseek", "deepseek-v4-pro", "deepseek-v4-flash"),
    "kimi": Route("moonshot", "kimi-k3", "kimi-k2.7-code"),
    "openrouter": Route("openrouter", "anthropic/claude-sonnet-5.5", "deepseek/deepseek-v4-pro"),
}
ALL = pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
pytestmark = pytest.mark.sampled(of=3)


@dataclass
class Life:
    """A person's project, whose provider is the strict server."""

    place: Place
    server: StrictServer
    route: Route

    def configure(self, **settings: Any) -> None:
        provider = {"base_url": self.server.url, "api_key": "a-key-of-tests", "api": self.route.api}
        self.place.home.mkdir(exist_ok=True)
        (self.place.home / "config.json").write_text(
            json.dumps({"providers": {self.route.name: provider}, **settings})
        )

    def flags(self, model: str = "") -> list[str]:
        return ["--provider", self.route.name, "--model", model or self.route.model]

    def run(self, *arguments: str, model: str = "") -> Finished:
        done = self.place.run(*arguments, *self.flags(model))
        assert self.server.refusals == []
        assert done.code == 0, done.err
        return done

    def turns(self) -> list[Asked]:
        """The session's own requests: memory's questions have no tools."""
        return [one for one in self.server.requests if one.json.get("tools")]

    def agents(self) -> list[ChildRecord]:
        """The subagents of the one session, with their files."""
        (path,) = self.place.session_files
        return read_records(path.with_suffix("") / "agents")

    @property
    def entries(self) -> list[dict[str, Any]]:
        (path,) = self.place.session_files
        return [json.loads(line) for line in path.read_text().splitlines()]


def spoken(request: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = request.get("messages") or request.get("input") or []
    return found


def script(request: dict[str, Any]) -> dict[str, Any]:
    """Two steps of calls for a message with LOOK, else an answer; thinking every time."""
    if not request.get("tools") or asks_for_note(request):
        return {"thinking": "To keep.", "text": "A note of what was said."}
    since: list[str] = []
    for message in reversed(spoken(request)):
        text = json.dumps(message, ensure_ascii=False)
        since.append(text)
        if message.get("role") == "user" and "SAYS" in text:
            break
    asked, results = since[-1], sum("R-E-S-U-L-T" in text for text in since)
    if "LOOK" in asked and results < 2:
        paths = ["one.txt"] if not results else ["two.txt", "three.txt"]
        calls = [{"name": "read_file", "arguments": {"path": path}} for path in paths]
        return {"thinking": f"Step {results}. é", "text": "I look." * (not results), "calls": calls}
    if "SHOW" in asked and len(since) == 1:
        return {"calls": [{"name": "read_file", "arguments": {"path": "shot.png"}}]}
    if "COUNT" in asked:
        return {"thinking": "Three.", "text": '{"count": 3}'}
    if "WAIT" in asked and "go on" not in asked:
        return {"thinking": "Long.", "text": "Late.", "delay_s": 60}
    return {"thinking": "That is all.", "text": "Seen."}


@contextmanager
def living(place: Place, route: Route, play: Callable[[Any], Any] = script) -> Iterator[Life]:
    """A life in which nothing is refused."""
    place.extra["KODE_MODEL"] = ""
    for name in ("one", "two", "three"):
        (place.project / f"{name}.txt").write_text(f"R-E-S-U-L-T of {name}\n" * 40)
    (place.project / "shot.png").write_bytes(SHOT)
    with StrictServer(play, vendor=route.vendor) as server:
        life = Life(place, server, route)
        life.configure()
        yield life
    assert server.refusals == []


@pytest.fixture
def life(place: Place, route: Route) -> Iterator[Life]:
    with living(place, route) as life:
        yield life


def beginning(request: dict[str, Any]) -> list[Any]:
    """System prompt and tools, without cache marks."""
    first = [m for m in spoken(request)[:1] if m.get("role") in ("system", "developer")]
    found = [request.get("tools"), request.get("system"), request.get("instructions"), first]
    return [unmarked(part) for part in found]


def unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [unmarked(item) for item in value]
    if isinstance(value, dict):
        marks = ("cache_control", "prompt_cache_breakpoint")
        return {k: unmarked(v) for k, v in value.items() if k not in marks}
    return value


def marks_of(request: dict[str, Any]) -> int:
    text = json.dumps(request)
    return text.count('"cache_control"') + text.count('"prompt_cache_breakpoint"')


@ALL
def test_a_session_keeps_one_beginning_and_nothing_is_refused(life: Life, route: Route) -> None:
    life.run("run", "SAYS LOOK at the files")
    facts = life.place.home / "memory" / "facts" / "env.md"
    facts.parent.mkdir(parents=True, exist_ok=True)
    facts.write_text("The tests need Redis on port 6379.\n")
    life.run("continue", "SAYS LOOK once more")
    count = len(life.server.requests)
    with life.place.start("continue", "SAYS WAIT for it", *life.flags()) as waiting:
        life.server.wait_for("count", count + 1)
        waiting.kill()
    life.run("continue", "SAYS go on")
    life.run("continue", "SAYS plan it", "--permission-mode", "plan")
    # From here on the server misses what it sent as another model, which gets the plain form.
    assert life.server.soft_faults == []
    life.run("continue", "SAYS something else", model=route.other)
    life.run("continue", "SAYS LOOK again")
    life.run("continue", "SAYS think less", "--effort", "low")

    requests = [one.json for one in life.turns()]
    own = [one for one in requests if one["model"] == route.model]
    assert len(own) > 10
    assert all(beginning(one) == beginning(own[0]) for one in own)
    assert all(marks_of(one) <= 4 for one in requests)
    told = json.dumps(unmarked(spoken(own[-1])))

    assert told.count("Redis on port 6379") == 1
    for before, after in itertools.pairwise(own):
        old, new = unmarked(spoken(before)), unmarked(spoken(after))
        same = sum(1 for a, b in zip(old, new, strict=False) if a == b)
        # The last turn of the person may have been continued, after a reply that never came.
        assert same >= len(old) - 1


@ALL
def test_compaction_is_never_refused(life: Life, route: Route) -> None:
    for name in ("one", "two", "three"):
        (life.place.project / f"{name}.txt").write_text(f"R-E-S-U-L-T of {name} and more\n" * 130)
    life.configure(context={"window": 18_000})
    for number in range(12):
        life.run("run" if not number else "continue", f"SAYS LOOK, {number}")

    kinds = [entry["type"] for entry in life.entries]
    assert kinds.count("compaction") > 1
    own = [one.json for one in life.turns()]
    notes = [at for at, one in enumerate(own) if asks_for_note(one)]
    assert all(beginning(own[at]) == beginning(own[at - 1]) for at in notes)


@ALL
def test_rewind_subagent_and_schema_answers_are_accepted(
    life: Life, route: Route, tmp_path: Path
) -> None:
    life.run("run", "SAYS SHOW it")
    sent = json.dumps(life.turns()[-1].json)
    assert base64.b64encode(SHOT).decode() in sent or "cannot see images" in sent
    life.run("continue", "SAYS and this?")
    messages = [e for e in life.entries if e["type"] == "message" and e["role"] == "user"]
    (path,) = life.place.session_files
    with path.open("a") as file:
        line = {"type": "rewind", "id": "0f0f0f0f", "at": messages[-1]["at"]}
        file.write(json.dumps({**line, "to": messages[-1]["id"]}) + "\n")
    life.run("continue", "SAYS LOOK elsewhere")
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    answered = life.run("continue", "SAYS COUNT them", "--json-schema", str(schema))
    child = life.place.run("subagent", "--goal", "SAYS LOOK at one.txt", *life.flags())

    assert life.server.soft_faults == []
    assert json.loads(answered.out) == {"count": 3}
    assert child.lines[-1]["status"] == "success", child.out
