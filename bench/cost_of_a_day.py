"""What a day of work is billed: `python -m bench.cost_of_a_day [--json] [--why]`.

One session of 40 turns, each with one tool call, opened four times (three `continue`s, before each
of which a fact is added to memory by hand), compacted once in the middle. Per wire format, in
tokens of the strict server (`tests.strict_server`), which counts its cache as the vendor does:

new       neither read from the cache nor written to it
cached    read from the cache
written   written to the cache, which some vendors bill at more than the price of input
ideal     what a day costs if every token is billed once: of each stretch between two compactions
          the longest request, without what it begins with of the stretch before; and each request
          of another kind whole (`side`)
ratio     (new + written) / ideal
side      the part of new and written that is in requests beside the session's own: memory's

The server's cache never runs out, as if nobody paused.

`--why` names instead each request of the session that was billed for what the one before it held,
and where the two begin to differ.
"""

import asyncio
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.measure import configure, report, sized, workplace
from bench.prefix import asks_for_note, is_of_session
from tests.scripted_server import last_user_text
from tests.strict_server import StrictServer
from tests.strict_server.cache import Cache, Cost, Piece

TURNS = sized(40, 8)
OPENINGS = 4
FILE_BYTES = (2_000, 3_100, 4_200, 5_300, 6_000)
SLACK = 128
"""Tokens that may be billed again without being a fault: the step of an automatic cache."""
AROUND = 60
"""Characters shown on either side of where a part begins to differ."""


@dataclass(frozen=True)
class Route:
    """How a format is spoken: a vendor of the strict server and of kode, by the same name."""

    vendor: str
    model: str


ROUTES = {
    "responses": Route("openai", "gpt-6.1-sol"),
    "chat": Route("openrouter", "anthropic/claude-sonnet-5.5"),
    "messages": Route("anthropic", "claude-sonnet-5-5"),
}
"""Chat Completions with the vendor that caches only up to marks; the others of that format find a
common beginning by themselves."""


@dataclass(frozen=True)
class Request:
    """One request as the server's cache saw it."""

    pieces: tuple[str, ...]
    cost: Cost
    is_side: bool
    """Whether it is none of the session's own, which the question for a compaction's note is."""
    stretch: int
    """How many compactions came before it."""


@dataclass
class WatchedCache(Cache):
    """Keeps the prompt and the cost of each request."""

    seen: list[tuple[tuple[str, ...], Cost]] = field(default_factory=list)

    def by_marks(self, owner: str, pieces: Sequence[Piece], *rest: Any, **named: Any) -> Cost:
        return self._keep(pieces, super().by_marks(owner, pieces, *rest, **named))

    def by_steps(self, owner: str, pieces: Sequence[Piece], *rest: Any, **named: Any) -> Cost:
        return self._keep(pieces, super().by_steps(owner, pieces, *rest, **named))

    def _keep(self, pieces: Sequence[Piece], cost: Cost) -> Cost:
        self.seen.append((tuple(piece.text for piece in pieces), cost))
        return cost


def main(argv: Sequence[str]) -> int:
    """Prints the figures; exits 0 whatever they are."""
    routes = sized([*ROUTES], ["chat"])
    days = {name: day(ROUTES[name]) for name in routes}
    if "--why" in argv:
        for name, requests in days.items():
            for line in misses(requests):
                print(f"{name}: {line}")
        return 0
    figures = {name: figures_of(requests) for name, requests in days.items()}
    return report(figures, as_json="--json" in argv)


# ── the day ──────────────────────────────────────────────────────────────────────────────────


def day(route: Route, turns: int = TURNS) -> list[Request]:
    """Lives the day; all its requests. Raises: RuntimeError if the server refused one of them, or a
    turn failed."""
    with StrictServer(reply_to, vendor=route.vendor) as server:
        cache = WatchedCache()
        server.prompts = cache
        with _place(route, server) as (project, home):
            compacted_at = asyncio.run(_sessions(route, project, home, turns, cache))
        asked = list(server.requests)
        if refused := [text for text in server.refusals if text.startswith(asked[0].path)]:
            raise RuntimeError(f"{route.vendor} refused a request: {refused[0]}")
    return [
        Request(pieces, cost, is_side=_is_side(one.json), stretch=int(at >= compacted_at))
        for at, ((pieces, cost), one) in enumerate(zip(cache.seen, asked, strict=True))
    ]


def _is_side(body: Mapping[str, Any]) -> bool:
    return not is_of_session(body) and not asks_for_note(body)


@contextmanager
def _place(route: Route, server: StrictServer) -> Iterator[tuple[Path, Path]]:
    """The project and kode's folder, in an environment that reaches only the server."""
    with workplace(server.url) as (project, environ):
        environ |= {f"{route.vendor.upper()}_API_KEY": "bench"}
        configure(environ, providers={route.vendor: {"base_url": server.url}})
        for number, size in enumerate(FILE_BYTES):
            (project / f"part{number}.py").write_text(_source(number, size), encoding="utf-8")
        with patch.dict(os.environ, environ, clear=True):
            yield project, Path(environ["KODE_HOME"])


async def _sessions(
    route: Route, project: Path, home: Path, turns: int, cache: WatchedCache
) -> int:
    """All turns; how many requests had been sent when the compaction was done."""
    from kode.config.load import load_config
    from kode.conversation import Settings, open_conversation
    from kode.events import no_emit

    flags = {"provider": route.vendor, "model": route.model, "permissions.mode": "full"}
    session_id, compacted_at = None, 0
    for opening in range(OPENINGS):
        loaded = load_config(home, project, environ=os.environ, flags=flags)
        talk = await open_conversation(
            Settings(loaded, emit=no_emit), cwd=project, session_id=session_id
        )
        session_id = talk.session.id
        for number in range(turns * opening // OPENINGS, turns * (opening + 1) // OPENINGS):
            ended = await talk.turn(f"Task {number}. {_wish(number)}")
            if ended.status != "success":
                raise RuntimeError(f"turn {number} ended as {ended.status}: {ended.error}")
            if number == turns // 2 + 1:
                await talk.compact()
                compacted_at = len(cache.seen)
        await talk.close()
        _add_fact(home, opening)
    return compacted_at


def _add_fact(home: Path, number: int) -> None:
    file = home / "memory" / "facts" / "env.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    line = f"Service {number} of the project listens on port {6379 + number}.\n"
    file.write_text(text + line, encoding="utf-8")


def _wish(number: int) -> str:
    names = [f"column{(number * 7 + at) % 23}" for at in range(6)]
    return (
        f"Look at how part {number % len(FILE_BYTES)} reads {', '.join(names)} and say whether an "
        "empty line between two records would be taken for the end of the file."
    )


def _source(number: int, size: int) -> str:
    lines = (
        f"def column{at}(row):\n    return row[{at}].strip() or DEFAULTS[{number}]['column{at}']\n"
        for at in range(size)
    )
    text = ""
    while len(text) < size:
        text += next(lines)
    return text


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


# ── the figures ──────────────────────────────────────────────────────────────────────────────


def figures_of(requests: Sequence[Request]) -> dict[str, float]:
    """What was billed, beside the ideal."""
    costs = [request.cost for request in requests]
    new = sum(cost.new for cost in costs)
    written = sum(cost.written for cost in costs)
    side = [request.cost for request in requests if request.is_side]
    ideal = ideal_of(requests)
    return {
        "new": new,
        "cached": sum(cost.cached for cost in costs),
        "written": written,
        "ideal": ideal,
        "ratio": round((new + written) / ideal, 3),
        "side": sum(cost.new + cost.written for cost in side),
    }


def ideal_of(requests: Sequence[Request]) -> int:
    """Tokens of a day in which each is billed once; see the module."""
    found = sum(request.cost.total for request in requests if request.is_side)
    before: tuple[str, ...] = ()
    for stretch in sorted({request.stretch for request in requests}):
        own = [one for one in requests if one.stretch == stretch and not one.is_side]
        longest = max(own, key=lambda request: request.cost.total)
        found += longest.cost.total - shared(before, longest.pieces)
        before = longest.pieces
    return found


def shared(before: Sequence[str], after: Sequence[str]) -> int:
    """Tokens of the whole parts with which both begin."""
    return sum(len(piece.encode()) for piece in after[: _same(before, after)]) // 4


def _same(before: Sequence[str], after: Sequence[str]) -> int:
    pairs = zip(before, after, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def misses(requests: Sequence[Request]) -> Iterator[str]:
    """A line for each request of the session that was billed for what the one before it held, or,
    after a compaction, for what it still begins with of that."""
    own = [(at, request) for at, request in enumerate(requests) if not request.is_side]
    for (_, before), (at, after) in pairwise(own):
        same = _same(before.pieces, after.pieces)
        begins = shared(before.pieces, after.pieces)
        seen = before.cost.total if before.stretch == after.stretch else begins
        again = seen - after.cost.cached
        if again <= SLACK:
            continue
        where = f"request {at + 1}, {again:,} tokens billed again"
        if same < len(before.pieces) and same < len(after.pieces):
            where += f"; {_difference(before.pieces[same], after.pieces[same])}, in part {same + 1}"
        if begins - after.cost.cached > SLACK:
            where += f"; no mark found the {begins:,} tokens with which both begin"
        yield where


def _difference(old: str, new: str) -> str:
    cut = _same(old, new)
    start = max(0, cut - AROUND)
    return f"{old[start : cut + AROUND]!r} is now {new[start : cut + AROUND]!r}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
