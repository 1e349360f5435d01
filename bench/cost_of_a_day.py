"""What a day of work is billed: `python -m bench.cost_of_a_day [--json]`.

One session of 40 turns, each with one tool call, opened four times (three `continue`s, before each
of which a fact is added to memory by hand), compacted once in the middle. Per route, in tokens of
the strict server (`tests.strict_server`), which counts its cache as the vendor does:

new           neither read from the cache nor written to it
cached        read from the cache
written       written to the cache, which some vendors bill at more than the price of input
ideal         what a day costs if every token is billed once: of each stretch between two
              compactions the longest request, without what it begins with of the stretch before;
              and each request of another kind whole (`side`)
ratio         (new + written) / ideal
side          the part of new and written that is in requests beside the session's own: memory's
cost_ratio    the price of what was sent, at the vendor's prices, to that of the ideal day: each
              request reads what the one before it held, and writes the rest
paused_ratio  likewise for a person at the prompt, who pauses ten times for 20 minutes. Ideally only
              the end of the request before a pause is written for an hour, which nobody foresees
paused_usd    the price of that day
"""

import asyncio
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.measure import by_size, configure, report, workplace
from bench.prefix import asks_for_note, is_of_session
from kode.messages import Usage
from kode.provider import ModelInfo
from kode.providers.models import cost_usd, model_info_of
from tests.scripted_server import last_user_text
from tests.strict_server import StrictServer
from tests.strict_server.cache import Cache, Cost, Piece

TURNS = by_size(40, 8)
OPENINGS = 4
FILE_BYTES = (2_000, 3_100, 4_200, 5_300, 6_000)
STEP_S = 15
"""Of the server's time, from one request to the next."""
PAUSE_S, PAUSE_EVERY = 20 * 60, 4  # turns
"""Longer than five minutes, and shorter than the least that any other cache lives."""


@dataclass(frozen=True)
class Route:
    """How a model is reached: a vendor of the strict server and of kode, by the same name, or a
    provider of another name that passes requests on to it in its format."""

    vendor: str
    model: str
    provider: str = ""
    api: str = "auto"

    @property
    def info(self) -> ModelInfo:
        return model_info_of(self.model, provider=self.provider or self.vendor)


ROUTES = {
    "responses": Route("openai", "gpt-6.1-sol"),
    "chat": Route("openrouter", "anthropic/claude-sonnet-5.5"),
    "messages": Route("anthropic", "claude-sonnet-5-5"),
    "gateway": Route("anthropic", "claude-opus-4-8", provider="gateway", api="messages"),
    "deepseek": Route("deepseek", "deepseek-v4-pro"),
}
"""Claude is cached only up to marks, wherever it is; the last finds a common beginning itself."""


@dataclass(frozen=True)
class Request:
    """One request as the server's cache saw it."""

    pieces: tuple[str, ...]
    cost: Cost
    is_side: bool
    """Whether it is none of the session's own, which the question for a compaction's note is."""
    stretch: int
    """How many compactions came before it."""
    precedes_pause: bool = False
    """Whether the session's next request comes after a pause."""


@dataclass
class WatchedCache(Cache):
    """Keeps the prompt and the cost of each request, and after how many of them what happened."""

    seen: list[tuple[tuple[str, ...], Cost]] = field(default_factory=list)
    pauses: list[int] = field(default_factory=list)
    compacted_at: int = 0

    def by_marks(self, owner: str, pieces: Sequence[Piece], *rest: Any, **named: Any) -> Cost:
        return self._keep(pieces, super().by_marks(owner, pieces, *rest, **named))

    def by_steps(self, owner: str, pieces: Sequence[Piece], *rest: Any, **named: Any) -> Cost:
        return self._keep(pieces, super().by_steps(owner, pieces, *rest, **named))

    def _keep(self, pieces: Sequence[Piece], cost: Cost) -> Cost:
        self.seen.append((tuple(piece.text for piece in pieces), cost))
        self.now_s += STEP_S
        return cost

    def pause(self) -> None:
        self.pauses.append(len(self.seen))
        self.now_s += PAUSE_S


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    routes = by_size([*ROUTES], ["chat"])
    figures = {}
    for name in routes:
        route = ROUTES[name]
        figures[name] = figures_of(route, live_day(route))
        paused = live_day(route, pauses=True)
        figures[name]["paused_ratio"] = cost_ratio(route, paused)
        figures[name]["paused_usd"] = price_of(route, [request.cost for request in paused])
    return report(figures, as_json="--json" in argv)


# ── the day ──────────────────────────────────────────────────────────────────────────────────


def live_day(route: Route, turns: int = TURNS, *, pauses: bool = False) -> list[Request]:
    """Lives the day; all its requests. Raises: RuntimeError if the server refused one of them, or a
    turn failed."""
    with StrictServer(reply_to, vendor=route.vendor) as server:
        cache = server.prompts = WatchedCache()
        with _place(route, server) as (project, home):
            asyncio.run(_sessions(route, project, home, turns, cache, pauses=pauses))
        asked = list(server.requests)
        if refused := [text for text in server.refusals if text.startswith(asked[0].path)]:
            raise RuntimeError(f"{route.vendor} refused a request: {refused[0]}")
    is_side = [not is_of_session(each.json) and not asks_for_note(each.json) for each in asked]
    before_pause = {max(at for at in range(end) if not is_side[at]) for end in cache.pauses}
    return [
        Request(pieces, cost, is_side[at], int(at >= cache.compacted_at), at in before_pause)
        for at, (pieces, cost) in enumerate(cache.seen)
    ]


@contextmanager
def _place(route: Route, server: StrictServer) -> Iterator[tuple[Path, Path]]:
    """The project and kode's folder, in an environment that reaches only the server."""
    with workplace(server.url) as (project, environ):
        settings = {"base_url": server.url, "api_key": "bench", "api": route.api}
        configure(environ, providers={route.provider or route.vendor: settings})
        for number, size in enumerate(FILE_BYTES):
            (project / f"part{number}.py").write_text(_source(number, size), encoding="utf-8")
        with patch.dict(os.environ, environ, clear=True):
            yield project, Path(environ["KODE_HOME"])


async def _sessions(
    route: Route, project: Path, home: Path, turns: int, cache: WatchedCache, *, pauses: bool
) -> None:
    from kode.config.load import load_config
    from kode.conversation import Settings, open_conversation
    from kode.events import no_emit

    flags = {"provider": route.provider or route.vendor, "model": route.model}
    flags |= {"permissions.mode": "full", "cache": "long" if pauses else "auto"}
    session_id = None
    for opening in range(OPENINGS):
        loaded = load_config(home, project, environ=os.environ, flags=flags)
        talk = await open_conversation(
            Settings(loaded, emit=no_emit), cwd=project, session_id=session_id
        )
        session_id = talk.session.id
        for number in range(turns * opening // OPENINGS, turns * (opening + 1) // OPENINGS):
            if pauses and number % PAUSE_EVERY == PAUSE_EVERY - 1:
                cache.pause()
            ended = await talk.turn(f"Task {number}. {_wish(number)}")
            if ended.status != "success":
                raise RuntimeError(f"turn {number} ended as {ended.status}: {ended.error}")
            if number == turns // 2 + 1:
                await talk.compact()
                cache.compacted_at = len(cache.seen)
        await talk.close()
        _add_fact(home, opening)


def _add_fact(home: Path, number: int) -> None:
    file = home / "memory" / "facts" / "env.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as facts:
        facts.write(f"Service {number} of the project listens on port {6379 + number}.\n")


def _wish(number: int) -> str:
    names = [f"column{(number * 7 + at) % 23}" for at in range(6)]
    return (
        f"Look at how part {number % len(FILE_BYTES)} reads {', '.join(names)} and say whether an "
        "empty line between two records would be taken for the end of the file."
    )


def _source(number: int, size: int) -> str:
    return "".join(
        f"def column{at}(row):\n    return row[{at}].strip() or DEFAULTS[{number}]['column{at}']\n"
        for at in range(size // 75)
    )


def reply_to(request: dict[str, Any]) -> dict[str, Any]:
    """The model's part: a call after the person's words, an answer after its result."""
    if not is_of_session(request):
        return {"text": "The parser was read part by part; nothing was changed. " * 20}
    asked = re.findall(r"Task (\d+)\. Look", last_user_text(request))
    if not asked:
        return {
            "thinking": "The loop stops at the first blank line, since strip() of it is false. "
            * 3,
            "text": "Yes: an empty line ends the loop, because the condition is the line itself. "
            "Compare with the end of the file instead, and skip lines that are blank. " * 2,
        }
    number = int(asked[-1])
    call: dict[str, Any] = {
        "name": "read_file",
        "arguments": {"path": f"part{number % len(FILE_BYTES)}.py"},
    }
    if number % 5 == 4:
        call = {"name": "shell", "arguments": {"command": f"echo checked {number}"}}
    return {
        "thinking": f"I have to see the source that task {number} is about before I say more. " * 3,
        "text": "I look at it.",
        "calls": [call],
    }


def figures_of(route: Route, requests: Sequence[Request]) -> dict[str, float]:
    """What was billed, beside the ideal."""
    costs = [request.cost for request in requests]
    new = sum(cost.new for cost in costs)
    written = sum(cost.written for cost in costs)
    ideal = sum(cost.total - cost.cached for cost in ideal_of(route, requests))
    return {
        "new": new,
        "cached": sum(cost.cached for cost in costs),
        "written": written,
        "ideal": ideal,
        "ratio": round((new + written) / ideal, 3),
        "side": sum(each.cost.new + each.cost.written for each in requests if each.is_side),
        "cost_ratio": cost_ratio(route, requests),
    }


def ideal_of(route: Route, requests: Sequence[Request]) -> list[Cost]:
    """What each request costs in a day in which each token is billed once; see the module."""
    before, costs = Request((), Cost(0), is_side=False, stretch=0), []
    for request in requests:
        total, cached = request.cost.total, 0
        if not request.is_side:
            cached = min(before.cost.total, total)
            if request.stretch != before.stretch:
                cached = count_shared(before.pieces, request.pieces)
            before = request
        writes = route.info.cache_write_price is not None and not request.is_side
        written = total - cached if writes else 0
        lasts = request.precedes_pause and "claude" in route.model
        costs.append(Cost(total, cached, written, written if lasts else 0))
    return costs


def cost_ratio(route: Route, requests: Sequence[Request]) -> float:
    billed = price_of(route, [request.cost for request in requests])
    return round(billed / price_of(route, ideal_of(route, requests)), 3)


def price_of(route: Route, costs: Sequence[Cost]) -> float:
    """In dollars, without output."""
    usage = Usage(
        input_tokens=sum(cost.total for cost in costs),
        cached_tokens=sum(cost.cached for cost in costs),
        cache_write_tokens=sum(cost.written for cost in costs),
        hour_write_tokens=sum(cost.long for cost in costs),
    )
    return round(cost_usd(route.info, usage) or 0, 4)


def count_shared(before: Sequence[str], after: Sequence[str]) -> int:
    """Tokens of the whole parts with which both begin."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    return sum(len(piece.encode()) for piece, _ in pairs) // 4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
