"""Memory over a project's life: `python -m bench.memory_life [--sizes 30,300] [--systems tiered]
[--errors 0.05] [--seed 1] [--home FOLDER] [--json]`.

Every system lives the same made-up months (`bench.life.story`) through the hooks and tools of a
session, beside no memory, a file of notes searched by word, and the whole history in the window.

What the script shows is what kode's own code does with what a capable model writes: what is found,
shown, marked, kept back and let go. What it does not show is how well a real model writes, judges
and reads: this one writes each statement as it comes, notices seven of ten changes by itself,
judges with a stated rate of errors, and believes by one rule whatever it is shown. Each statement
can be recognised by its value; the words of questions are those of statements in part.

told_used    of questions whose answer stands, the share answered rightly, with its 95% interval
settled      of questions after a contradiction (a change by the person, a misreading of code by the
             model, a page), the share answered by what holds: the person's newest word
abstained    of questions about what nobody said, the share answered by "I do not know"
stale        statements that no longer hold and were taken for true by whoever was shown them, in
             any session (changed, moved code, expired); `beside`: shown unmarked beside what holds
misread      the same of what the model misread in code
poison       facts of outside pages that a later session was shown
leaks        forgotten facts that a later session was shown
marked       statements about unchanged code that were marked as stale (must be 0)
tokens       a session, of all that memory put into the context; `unasked`: without what the model
             looked up; medians of the last tenth of the sessions
refused      writes that were turned down
calls        of the model by memory itself, a session
ms           a session, in hooks and tools
conflict_1, conflict_2   of questions on facts with serial numbers of which the newest holds, the
             share answered rightly: about one fact, and about two in a chain

`--installed N` lives N sessions instead, a day each, through the installed command, with a model
that notices half of what changes; `bench.life.installed` says what is counted.
"""

import argparse
import asyncio
import itertools
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from bench.life import hands as writing
from bench.life.hands import Hands, InProcess
from bench.life.mind import ANSWER, READ, Mind
from bench.life.plain import CHARS_A_TOKEN, Files, Window
from bench.life.reader import PAGE, Reader
from bench.life.story import (
    ASKED,
    Fact,
    Said,
    Session,
    Truth,
    conflicts,
    make_life,
    question_text,
    target_of,
)
from bench.measure import by_size, report
from kode import paths
from kode.events import no_emit
from kode.memory.contract import MemoryContext, MemorySystem, NullMemory, Turn
from kode.messages import Message, Text, text_of, user_message
from kode.session.record import Project, SessionRecord

T = TypeVar("T")

SIZES = (30, 300)
BASELINES = ("none", "files", "window")
LIMITS = {"facts_limit_user": 1500, "facts_limit_env": 2500}
"""Characters of tiered's files; `--systems "tiered*4"` lives with four times as many."""
LOOK_UPS = 3
"""Calls of tools that the model makes for one question."""
CONFLICTING, CONFLICT_QUESTIONS = by_size((240, 60), (16, 2))


@dataclass
class Figures:
    right: int = 0
    asked: int = 0
    settled: int = 0
    contradicted: int = 0
    abstained: int = 0
    unknown: int = 0
    stale: int = 0
    beside: int = 0
    misread: int = 0
    marked: int = 0
    poison: set[str] = field(default_factory=set)
    leaks: set[str] = field(default_factory=set)
    refused: int = 0
    seconds: float = 0.0
    tokens: list[float] = field(default_factory=list)
    unasked: list[float] = field(default_factory=list)

    async def timed(self, work: Awaitable[T]) -> T:
        started = time.perf_counter()
        result = await work
        self.seconds += time.perf_counter() - started
        return result

    def row(self, calls: int) -> dict[str, Any]:
        sessions = len(self.tokens)
        last = max(1, sessions // 10)
        return {
            "told_used": share(self.right, self.asked),
            "interval": interval(self.right, self.asked),
            "settled": share(self.settled, self.contradicted),
            "abstained": share(self.abstained, self.unknown),
            "stale": self.stale,
            "beside": self.beside,
            "misread": self.misread,
            "poison": len(self.poison),
            "leaks": len(self.leaks),
            "marked": self.marked,
            "tokens": round(statistics.median(self.tokens[-last:])),
            "unasked": round(statistics.median(self.unasked[-last:])),
            "refused": self.refused,
            "calls": round(calls / sessions, 2),
            "ms": round(1000 * self.seconds / sessions, 1),
        }


def share(part: int, whole: int) -> float:
    return round(part / whole, 3) if whole else 0.0


def interval(part: int, whole: int) -> str:
    """Wilson's, of 95%."""
    if not whole:
        return ""
    z, p = 1.96, part / whole
    middle = (p + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole**2)) / (1 + z * z / whole)
    return f"{middle - half:.3f}-{middle + half:.3f}"


class Life:
    """One system's life in a folder."""

    def __init__(self, name: str, folder: Path, error_rate: float, seed: int) -> None:
        self.figures = Figures()
        self._name = name
        self._project = folder / "project"
        self._project.mkdir()
        (self._project / ".git").mkdir()
        self._root = folder / "memory"
        self._truth = Truth()
        self.mind = Mind(self._truth.facts, error_rate, seed)
        self._files = Files(folder)
        self._window = Window()
        self._reader = Reader(self._truth.facts, "")
        self._moved_down: dict[str, int] = {}
        self._messages: list[Message] = []
        self._typed: list[str] = []

    async def session(self, session: Session, *, last: bool = True) -> None:
        """From opening to closing; with `last` the end is heard, as of a session that was left."""
        figures, at = self.figures, session.at
        self._truth.turn_to(f"{at:%Y-%m-%d}")
        self._at = f"{at:%Y-%m-%d %H:%M}"
        system = self._system()
        await figures.timed(system.open(self._context(session), {}))
        injection = await figures.timed(system.inject("start"))
        self._open_reader(f"{at:%Y-%m-%d}")
        self._calls = InProcess(system)
        plain = self._files if self._name == "files" else None
        self._hands = Hands(self._name.partition("*")[0], self._truth.facts, self._calls, plain)
        unasked = self._show(injection.system, injection.first_user)
        await figures.timed(system.maintain())
        self._looked_up = 0
        messages = self._messages = list[Message]()
        for number, said in enumerate(session.turns, 1):
            self._typed.append(said.text)
            asked = Turn(number=number, text=said.text, tainted=self._calls.tainted)
            unasked += self._show(await figures.timed(system.recall(asked)))
            answer = await self._act(said)
            turn = self._turn(number, said, answer)
            messages += turn.messages
            if last:
                await figures.timed(system.after_turn(turn))
        self._look_at_what_was_shown()
        if last:
            await figures.timed(system.before_drop(messages, "exit"))
        system.state()
        await figures.timed(system.close(15.0))
        figures.refused += self._hands.refused
        whole = self._window.chars if self._name == "window" else 0
        spoken = filter(None, map(text_of, messages))
        self._window.add(self._at, "".join(f"{self._at} {text}\n" for text in spoken))
        figures.unasked.append((whole or unasked) / CHARS_A_TOKEN)
        figures.tokens.append((whole or unasked + self._looked_up) / CHARS_A_TOKEN)

    def _system(self) -> MemorySystem:
        from kode.config.model import MemoryConfig
        from kode.memory.system import make_system

        if self._name in BASELINES:
            plain = {"none": NullMemory(), "files": self._files, "window": self._window}
            return plain[self._name]
        # Searches are judged by their ranked order, without a model.
        name, _, times = self._name.partition("*")
        limits: dict[str, Any] = {of: int(times or 1) * most for of, most in LIMITS.items()}
        return make_system(MemoryConfig(system=name, llm_search=False, **limits))

    def _context(self, session: Session) -> MemoryContext:
        self._messages, self._typed = [], []
        clock = (session.at + timedelta(seconds=second) for second in itertools.count())

        def record(id: str) -> SessionRecord:
            return SessionRecord(
                id=id,
                project=Project(self._project, paths.path_hash(self._project), True),
                messages=tuple(self._messages),
                typed=tuple(self._typed),
                turns=len(self._typed),
                started_at=session.at,
                ended_at=session.at + timedelta(minutes=30),
                tainted_by="a page" if self._calls.tainted else "",
            )

        return MemoryContext(
            root=self._root,
            cwd=self._project,
            project_root=self._project,
            session_id=f"{session.at:%Y%m%d-%H%M%S}-{session.number:06x}",
            emit=no_emit,
            ask_reply=self.mind.reply,
            now=lambda: next(clock),
            tainted=lambda: self._calls.tainted,
            outside=lambda: "a page",
            typed_messages=lambda: tuple(self._typed),
            session=record,
        )

    def _open_reader(self, today: str) -> None:
        """Of the whole history all but the last session has been read already."""
        if self._name != "window":
            self._reader = Reader(self._truth.facts, today)
        self._reader.today, self._reader.since = today, self._window.since
        if self._name != "window":
            self._reader.since = ""
        self._reader.begin()

    def _show(self, *texts: str) -> int:
        for text in texts:
            self._reader.look(text)
        return sum(map(len, texts))

    # ── a turn ───────────────────────────────────────────────────────────────────────────────

    async def _act(self, said: Said) -> str:
        """What the agent does, and answers."""
        fact, figures = said.fact, self.figures
        if said.question is not None:
            return await self._answer(said)
        if fact is None:
            return "Done."
        if said.kind == "page":
            self._calls.tainted = True
        if said.kind in ("observed", "moved", "shifted"):
            self._write_code(said)
        self._truth.hear(said)
        if said.kind in ("told", "changed", "passing", "observed"):
            self._reader.hear(fact.key, fact)
        if said.kind in ("forget", "moved"):
            self._reader.hear(fact.key, None)
        if said.kind in ("moved", "shifted"):
            return "Done."
        await figures.timed(self._hands.keep(said, fact, self._at))
        begins = {"misread": READ, "observed": READ, "page": PAGE}.get(said.kind)
        return f"{begins}{fact.text}." if begins else "Done."

    def _write_code(self, said: Said) -> None:
        assert said.fact is not None
        fact = said.fact
        if said.kind == "shifted":
            self._moved_down[fact.value] = self._moved_down.get(fact.value, 0) + 1
        value = "another" if said.kind == "moved" else fact.value
        above = self._moved_down.get(fact.value, 0)
        writing.write_cited(self._project, fact, value, above=above)

    async def _answer(self, said: Said) -> str:
        """What it says of what it was shown, looking up what that does not hold."""
        assert said.question is not None
        question, figures = said.question, self.figures
        answers: list[Fact | None] = []
        expected: list[Fact | None] = []
        calls = LOOK_UPS
        for key in question.asks:
            wanted = key
            if question.hops and answers:
                wanted = (target_of(expected[-1]), key[1]) if expected[-1] else key
                key = (target_of(answers[-1]), key[1]) if answers[-1] else key
            if self._reader.answer(key) is None and calls:
                calls -= 1
                ask = ASKED[key[1]].format(s=key[0]) if key[1] in ASKED else question_text(key)
                text = await figures.timed(self._hands.look_up(ask, key[0]))
                self._looked_up += self._show(text)
            answers.append(self._reader.answer(key))
            expected.append(self._truth.standing.get(wanted))
        right = answers == expected
        if self._reader.has_heard(question.asks):
            pass  # said in this very session: no memory is needed
        elif not any(expected):
            figures.unknown += 1
            figures.abstained += right
        else:
            figures.asked += 1
            figures.right += right
            if question.after:
                figures.contradicted += 1
                figures.settled += right
        texts = [fact.text for fact in answers if fact]
        return f"{ANSWER}{'. '.join(texts)}." if texts else "I do not know."

    def _turn(self, number: int, said: Said, answer: str) -> Turn:
        fact = said.fact if said.kind == "observed" else None
        reading = writing.read_cited(self._project, fact) if fact else ()
        reply = Message(role="assistant", parts=(Text(text=answer),), stop="end")
        return Turn(
            number=number,
            text=said.text,
            answer=answer,
            messages=(user_message(said.text), *reading, reply),
            tainted=self._calls.tainted,
        )

    # ── the end of a session ─────────────────────────────────────────────────────────────────

    def _look_at_what_was_shown(self) -> None:
        figures, states = self.figures, self._truth.states
        for key in self._reader.untouched:
            shown = self._reader.shown(key)
            belief = self._reader.answer(key)
            for seen in shown:
                state = states[seen.fact.value]
                if state == "poison" and not seen.marked:
                    figures.poison.add(seen.fact.value)
                if state == "forgotten":
                    figures.leaks.add(seen.fact.value)
            if belief is None:
                continue
            state = states[belief.value]
            figures.stale += state in ("changed", "moved", "expired")
            figures.misread += state == "false"
            marked = {s.fact.value for s in shown if s.marked}  # which may stand below the text
            old = any(
                states[s.fact.value] == "changed" for s in shown if s.fact.value not in marked
            )
            figures.beside += state == "stands" and old
            figures.marked += any(s.marked and states[s.fact.value] == "stands" for s in shown)


def live(
    name: str, sizes: Sequence[int], error_rate: float, seed: int, home: Path | None
) -> Iterator[dict[str, Any]]:
    """One system's figures after so many sessions of one life, as it gets there."""
    with tempfile.TemporaryDirectory(prefix="kode-bench-", dir=home) as folder:
        lived = Life(name, Path(folder), error_rate, seed)
        for number, session in enumerate(make_life(max(sizes), seed), 1):
            asyncio.run(lived.session(session))
            if number in sizes:
                yield lived.figures.row(lived.mind.calls)


def live_conflicts(name: str, error_rate: float, seed: int, home: Path | None) -> dict[str, float]:
    """The shares of one hop and of two."""
    told, asked = conflicts(CONFLICTING, CONFLICT_QUESTIONS, seed)
    shares = {}
    with tempfile.TemporaryDirectory(prefix="kode-bench-", dir=home) as folder:
        lived = Life(name, Path(folder), error_rate, seed)

        async def ask(questions: Sequence[Said], first: int) -> float:
            lived.figures = Figures()
            for number, said in enumerate(questions, first):
                at = told[-1].at.replace(year=told[-1].at.year + 1)
                await lived.session(Session(number=number, at=at, turns=(said,)), last=False)
            return share(lived.figures.right, lived.figures.asked)

        async def all_of_it() -> None:
            for session in told:
                await lived.session(session)
            shares["conflict_1"] = await ask(asked[::2], len(told))
            shares["conflict_2"] = await ask(asked[1::2], len(told) + len(asked))

        asyncio.run(all_of_it())
    return shares


def main(argv: Sequence[str]) -> int:
    """Prints a table a size, or one JSON object with `--json`; exits 0 whatever the figures are."""
    from kode.registry import SYSTEMS

    parser = argparse.ArgumentParser(prog="bench.memory_life")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="sessions")
    parser.add_argument("--systems", default=",".join((*SYSTEMS, *BASELINES)))
    parser.add_argument("--errors", type=float, default=0.0, help="share of wrong judgments")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--home", type=Path, help="a folder for what is written, as /dev/shm")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--installed", type=int, metavar="N", help="sessions of the command itself")
    options = parser.parse_args(argv)
    if options.installed:
        from bench.life import installed

        names = [name for name in options.systems.split(",") if name in SYSTEMS]
        months = [installed.live_month(name, options.installed, options.seed) for name in names]
        rows = {month.system: month.row() for month in months}
        print(json.dumps(rows) if options.json else installed.format_table(months))
        return 0
    how = (options.errors, options.seed, options.home)
    sizes = sorted(map(int, options.sizes.split(",")))
    tables: dict[str, dict[str, dict[str, Any]]] = {str(size): {} for size in sizes}
    for name in options.systems.split(","):
        for size, row in zip(sizes, live(name, sizes, *how), strict=True):
            tables[str(size)][name] = row
            print(f"{name}, {size} sessions: {row}", file=sys.stderr, flush=True)
        conflict = live_conflicts(name, *how)
        for table in tables.values():
            table[name] |= conflict
    if options.json:
        how_made = {"errors": options.errors, "seed": options.seed}
        return report({**how_made, "sizes": tables}, as_json=True)
    for sessions, table in tables.items():
        print(f"\n{sessions} sessions, {options.errors:.0%} wrong judgments")
        report(table, as_json=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
