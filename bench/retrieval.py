"""Search, measured: `python -m bench.retrieval --data PATH [--json]`.

PATH is a file or folder of conversations in the form of LoCoMo
(https://github.com/snap-research/locomo), whose licence does not let them lie here.

Long conversations with questions and the turns that answer them. All of it is put into an open
memory, as the system keeps such texts, and found by the search that a person and the model get:
turns in each system that keeps what was said in a row, sessions and their summaries as episodes of
the tiered system. Beside them, in the same run: words alone, recency. Questions of
categories 1 to 4 count (5 has no answer in the conversation).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kode import paths
from kode.config.model import MemoryConfig
from kode.events import no_emit
from kode.memory.contract import MemoryContext
from kode.memory.search import IndexedText, TextIndex
from kode.memory.statement import Author, Statement, make_statement, timestamp
from kode.memory.system import Memory, make_system
from kode.session.record import Project, SessionRecord

RankFunction = Callable[[str], list[int]]
Search = Callable[[str], Awaitable[list[str]]]
"""From a question to the ids of what was found, best first."""

SYSTEMS = ("notes", "journal")
"""Those that keep what was said in a row; the tiered system keeps whole sessions."""
HITS = 50
NOW = datetime(2024, 6, 1, tzinfo=UTC)
FACTS_LEFT_OUT = 6

_EVIDENCE = re.compile(r"D\d+:\d+")


@dataclass(frozen=True)
class Question:
    text: str
    evidence: frozenset[str]
    """Ids of the turns that hold the answer."""


@dataclass(frozen=True)
class Conversation:
    turn_ids: list[str]
    turns: list[str]
    times: list[datetime]
    """When each turn was said; made up where the data does not say."""
    sessions: dict[int, str]
    summaries: dict[int, str]
    facts: dict[str, frozenset[str]]
    """What was observed in a session → ids of the turns that say so."""
    questions: list[Question]


def load(path: Path) -> list[Conversation]:
    """The conversations of a file: one, or a list of them."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return [_conversation(item) for item in (data if isinstance(data, list) else [data])]


def _conversation(data: dict[str, Any]) -> Conversation:
    data = data.get("conversation", {}) | data if "conversation" in data else data
    ids: list[str] = []
    turns: list[str] = []
    times: list[datetime] = []
    sessions: dict[int, str] = {}
    summaries: dict[int, str] = {}
    facts: dict[str, frozenset[str]] = {}
    numbers = sorted(int(key[8:]) for key in data if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        lines = []
        for turn in data[f"session_{number}"]:
            caption = turn.get("blip_caption")
            picture = f" [shares {caption}]" if caption else ""
            lines.append(f"{turn['speaker']}: {turn['text']}{picture}")
            ids.append(turn["dia_id"])
        turns += lines
        begun = _time_of(data.get(f"session_{number}_date_time", ""), number)
        times += [begun + timedelta(minutes=minute) for minute in range(len(lines))]
        when = data.get(f"session_{number}_date_time", "")
        sessions[number] = "\n".join([when, *lines])
        summary = data.get(f"session_{number}_summary")
        if summary:
            summaries[number] = f"{when}\n{summary}"
        for of_one in (data.get(f"session_{number}_observation") or {}).values():
            facts |= {text: frozenset(_EVIDENCE.findall(str(ids))) for text, ids in of_one}
    all_ids = set(ids)
    questions = []
    for item in data["qa"]:
        evidence = {id for part in item.get("evidence", []) for id in _EVIDENCE.findall(str(part))}
        if item.get("category") in (1, 2, 3, 4) and evidence & all_ids:
            questions.append(Question(item["question"], frozenset(evidence & all_ids)))
    return Conversation(ids, turns, times, sessions, summaries, facts, questions)


def _time_of(text: str, number: int) -> datetime:
    try:
        return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    except ValueError:
        return datetime(2023, 1, 1, tzinfo=UTC) + timedelta(days=number)


@dataclass
class Score:
    """Sums over questions."""

    recall: float = 0.0
    reciprocal: float = 0.0
    first: int = 0
    any: int = 0
    questions: int = 0

    def count(self, ranked: Sequence[Any], wanted: set[Any] | frozenset[Any], at: int = 10) -> None:
        places = [place for place, item in enumerate(ranked, 1) if item in wanted]
        self.questions += 1
        self.recall += sum(place <= at for place in places) / len(wanted)
        self.reciprocal += 1 / places[0] if places else 0.0
        self.first += bool(places) and places[0] == 1
        self.any += bool(places) and places[0] <= at

    @property
    def figures(self) -> dict[str, float]:
        n = max(1, self.questions)
        return {
            "recall@10": round(self.recall / n, 4),
            "mrr": round(self.reciprocal / n, 4),
            "p@1": round(self.first / n, 4),
            "any@10": round(self.any / n, 4),
        }


# ── what a person and the model search ───────────────────────────────────────────────────────


async def index_turns(name: str, conversation: Conversation, root: Path) -> Search:
    """The turns as notes of the system `name`, and its own search."""
    turns = zip(conversation.turn_ids, conversation.turns, conversation.times, strict=True)
    return await index_notes(name, [(id, text, at) for id, text, at in turns], root)


async def index_episodes(texts: Mapping[int, str], root: Path) -> Search:
    """Texts of sessions as the notes of the tiered system, and its own search."""
    start = datetime(2023, 1, 1, tzinfo=UTC)
    rows = [(str(n), text, start + timedelta(hours=n % 24)) for n, text in texts.items()]
    return await index_notes("tiered", rows, root)


async def index_notes(name: str, rows: Sequence[tuple[str, str, datetime]], root: Path) -> Search:
    """Notes on sessions with these ids, texts and times, and a search that gives the ids."""
    memory = await open_system(name, root)
    notes = [note_of(memory, id, text, at) for id, text, at in rows]
    await add(memory, notes)
    ids = {note.id: id for note, (id, _, _) in zip(notes, rows, strict=True)}

    async def search(query: str) -> list[str]:
        hits = await memory.search(query, HITS)
        return [ids[hit.where.rpartition(" ")[2]] for hit in hits]

    return search


async def index_facts(facts: Sequence[str], notes: Mapping[int, str], root: Path) -> Search:
    """Facts of the tiered system beside notes on sessions, and its own search."""
    await index_episodes(notes, root)
    memory = await open_system("tiered", root)
    author, at = Author("user"), timestamp(NOW)
    place = memory.policy.layout.place_of("user", "", memory.store.project)
    await add(memory, [make_statement(author, place, text, at) for text in facts])

    async def search(query: str) -> list[str]:
        return [hit.text for hit in await memory.search(query, HITS)]

    return search


def note_of(memory: Memory, id: str, text: str, at: datetime) -> Statement:
    """The note on a session, in the form of its system."""
    root = memory.store.project.root
    record = SessionRecord(
        id=id,
        project=Project(root, paths.path_hash(root), False),
        messages=(),
        typed=(),
        turns=1,
        started_at=at,
        ended_at=at,
    )
    note = memory.policy.note(record, text, ())
    return replace(note, session=id, claimed_at=timestamp(at))


async def add(memory: Memory, statements: Sequence[Statement]) -> None:
    store = memory.store
    change = replace(store.draft("import", Author("user")), add=tuple(statements))
    await store.commit(lambda view: change)


async def open_system(name: str, root: Path) -> Memory:
    """A system as it is configured by default, with room for all facts, without a model."""
    memory = make_system(MemoryConfig(system=name, facts_limit_user=1_000_000))
    assert isinstance(memory, Memory)
    context = MemoryContext(
        root=root / "memory",
        cwd=root,
        project_root=None,
        session_id=None,
        emit=no_emit,
        ask_reply=None,
        now=lambda: NOW,
    )
    await memory.open(context, {})
    return memory


# ── baselines ────────────────────────────────────────────────────────────────────────────────


def rank_by_age(texts: Sequence[str]) -> RankFunction:
    """The newest first, whatever was asked."""
    order = list(range(len(texts)))[::-1]
    return lambda query: order


def rank_by_words(texts: Sequence[str]) -> RankFunction:
    """Words alone, each text by itself."""
    index = TextIndex()
    index.update([IndexedText(str(number), text) for number, text in enumerate(texts)])
    return lambda query: [int(hit.text.id) for hit in index.search(query, HITS, NOW)]


BASELINES = {"words": rank_by_words, "recency": rank_by_age}


async def measure(conversations: Sequence[Conversation]) -> dict[str, Any]:
    """All figures. Those of turns are of the system that finds them worst; times are its too."""
    turns = {name: Score() for name in (*SYSTEMS, *BASELINES)}
    times_ms: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    sessions, summaries, index_lines = Score(), Score(), Score()
    facts, facts_beside = Score(), Score()
    for conversation in conversations:
        for name in SYSTEMS:
            with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
                search = await index_turns(name, conversation, Path(folder))
                for question in conversation.questions:
                    started = time.perf_counter()
                    ids = await search(question.text)
                    times_ms[name].append((time.perf_counter() - started) * 1000)
                    turns[name].count(ids, question.evidence)
        for name, make in BASELINES.items():
            ranked = make(conversation.turns)
            for question in conversation.questions:
                ids = [conversation.turn_ids[i] for i in ranked(question.text)]
                turns[name].count(ids, question.evidence)
        for score, texts in (
            (sessions, conversation.sessions),
            (summaries, conversation.summaries),
            (index_lines, {n: text[:120] for n, text in conversation.summaries.items()}),
        ):
            if texts:
                await _count_episodes(score, conversation, texts)
        for score, texts in ((facts, {}), (facts_beside, conversation.summaries)):
            await _count_facts(score, conversation, texts)
    worst = min(SYSTEMS, key=lambda name: turns[name].figures["recall@10"])
    figures = turns[worst].figures
    return {
        "recall@10": figures["recall@10"],
        "mrr": figures["mrr"],
        "p@1": figures["p@1"],
        "session_any@10": sessions.figures["any@10"],
        "ms_per_query": round(statistics.median(times_ms[worst]), 3) if times_ms[worst] else 0.0,
        "questions": turns[worst].questions,
        "turns": sum(len(c.turns) for c in conversations),
        "systems": {name: turns[name].figures for name in SYSTEMS},
        "sessions": sessions.figures,
        "summaries": summaries.figures,
        "summaries_cut_to_120": index_lines.figures,
        "facts": facts.figures,
        "facts_beside_summaries": facts_beside.figures,
        "baselines": {name: turns[name].figures for name in BASELINES},
    }


async def _count_facts(score: Score, conversation: Conversation, notes: Mapping[int, str]) -> None:
    """One in `FACTS_LEFT_OUT + 1` of the facts, as a person has few and many sessions."""
    chosen = dict(list(conversation.facts.items())[:: FACTS_LEFT_OUT + 1])
    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        search = await index_facts(list(chosen), notes, Path(folder))
        for question in conversation.questions:
            wanted = {text for text, ids in chosen.items() if ids & question.evidence}
            if wanted:
                score.count(await search(question.text), wanted)


async def _count_episodes(
    score: Score, conversation: Conversation, texts: Mapping[int, str]
) -> None:
    with tempfile.TemporaryDirectory(prefix="kode-bench-") as folder:
        search = await index_episodes(texts, Path(folder))
        for question in conversation.questions:
            numbers = {id[1:].partition(":")[0] for id in question.evidence}
            wanted = numbers & set(map(str, texts))
            if wanted:
                score.count(await search(question.text), wanted)


def main(argv: list[str] | None = None) -> int:
    """Prints a table, or one JSON object with `--json`; exits 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench.retrieval")
    parser.add_argument("--data", type=Path, metavar="PATH", help="a file or folder")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    if options.data is None:
        print("Needs conversations: python -m bench.retrieval --data locomo10.json, the file of")
        print("https://github.com/snap-research/locomo.")
        return 0
    files = sorted(options.data.glob("*.json")) if options.data.is_dir() else [options.data]
    if not files or not files[0].exists():
        print(f"No conversations in {options.data}; name a file or folder with --data.")
        return 1
    figures = asyncio.run(measure([conversation for path in files for conversation in load(path)]))
    if options.json:
        print(json.dumps(figures))
        return 0
    columns = ("recall@10", "mrr", "p@1", "any@10")
    print(f"{'':24}" + "".join(f"{name:>11}" for name in columns))
    rows = {
        **{f"turns, {name}": row for name, row in figures["systems"].items()},
        **{f"turns, {name} alone": row for name, row in figures["baselines"].items()},
        "sessions, tiered": figures["sessions"],
        "summaries, tiered": figures["summaries"],
        "summaries, 120 chars": figures["summaries_cut_to_120"],
    }
    for name, row in rows.items():
        print(f"{name:24}" + "".join(f"{row[column]:>11}" for column in columns))
    print(f"{figures['questions']} questions, {figures['ms_per_query']} ms a query over turns")
    return 0


if __name__ == "__main__":
    sys.exit(main())
