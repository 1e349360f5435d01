"""Search, measured: `python -m bench.retrieval [--data PATH] [--json]`.

Long conversations with questions and the turns that answer them. Ranks turns, sessions and session
summaries, beside plain recency, the plain projection and plain BM25 in the same run. Questions of
categories 1 to 4 count (5 has no answer in the conversation). Not here: ranking itself
(`kode.memory.rank`).
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.corpora import corpus

RankFunction = Callable[[str], list[int]]

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
    sessions: dict[int, str]
    summaries: dict[int, str]
    questions: list[Question]


def load(path: Path) -> Conversation:
    """One file of the corpus."""
    data: dict[str, Any] = json.loads(path.read_text())
    data = data.get("conversation", {}) | data if "conversation" in data else data
    ids: list[str] = []
    turns: list[str] = []
    sessions: dict[int, str] = {}
    summaries: dict[int, str] = {}
    numbers = sorted(int(key[8:]) for key in data if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        lines = []
        for turn in data[f"session_{number}"]:
            caption = turn.get("blip_caption")
            picture = f" [shares {caption}]" if caption else ""
            lines.append(f"{turn['speaker']}: {turn['text']}{picture}")
            ids.append(turn["dia_id"])
        turns += lines
        when = data.get(f"session_{number}_date_time", "")
        sessions[number] = "\n".join([when, *lines])
        summary = data.get(f"session_{number}_summary")
        if summary:
            summaries[number] = f"{when}\n{summary}"
    known = set(ids)
    questions = []
    for item in data["qa"]:
        evidence = {
            found for part in item.get("evidence", []) for found in _EVIDENCE.findall(str(part))
        }
        if item.get("category") in (1, 2, 3, 4) and evidence & known:
            questions.append(Question(item["question"], frozenset(evidence & known)))
    return Conversation(ids, turns, sessions, summaries, questions)


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


def recency(texts: Sequence[str]) -> RankFunction:
    """The newest first, whatever was asked."""
    order = list(range(len(texts)))[::-1]
    return lambda query: order


def projection(texts: Sequence[str]) -> RankFunction:
    """The local vectors alone, without document frequencies."""
    import numpy as np

    from kode.memory.embed import embed

    matrix = embed(texts)
    return lambda query: [int(i) for i in np.argsort(-(matrix @ embed([query])[0]))]


def bm25(texts: Sequence[str], neighbours: Sequence[float] = ()) -> RankFunction:
    """Words, with neighbours or without."""
    from kode.memory.rank import Ranker

    ranker = Ranker()
    for text in texts:
        ranker.add(text)
    return lambda query: [found.index for found in ranker.search(query, neighbours=neighbours)]


def measure(conversations: Sequence[Conversation]) -> dict[str, Any]:
    """All figures; times are of ranking turns, per query."""
    from kode.memory.rank import TURN_NEIGHBOURS

    methods: dict[str, Callable[[Sequence[str]], RankFunction]] = {
        "kode": lambda texts: bm25(texts, TURN_NEIGHBOURS),
        "bm25": bm25,
        "projection": projection,
        "recency": recency,
    }
    turns = {name: Score() for name in methods}
    sessions, summaries, index_lines = Score(), Score(), Score()
    times_ms: list[float] = []
    for conversation in conversations:
        for name, make in methods.items():
            search = make(conversation.turns)
            for question in conversation.questions:
                started = time.perf_counter()
                order = search(question.text)
                if name == "kode":
                    times_ms.append((time.perf_counter() - started) * 1000)
                turns[name].count([conversation.turn_ids[i] for i in order], question.evidence)
        for score, texts in (
            (sessions, conversation.sessions),
            (summaries, conversation.summaries),
            (index_lines, {n: text[:120] for n, text in conversation.summaries.items()}),
        ):
            if not texts:
                continue
            search = bm25(list(texts.values()))
            numbers = list(texts)
            for question in conversation.questions:
                wanted = {int(id[1:].split(":")[0]) for id in question.evidence} & set(numbers)
                if wanted:
                    score.count([numbers[i] for i in search(question.text)], wanted)
    kode = turns["kode"].figures
    return {
        "recall@10": kode["recall@10"],
        "mrr": kode["mrr"],
        "p@1": kode["p@1"],
        "session_any@10": sessions.figures["any@10"],
        "ms_per_query": round(statistics.median(times_ms), 3) if times_ms else 0.0,
        "questions": turns["kode"].questions,
        "turns": sum(len(c.turns) for c in conversations),
        "sessions": sessions.figures,
        "summaries": summaries.figures,
        "summaries_cut_to_120": index_lines.figures,
        "baselines": {name: turns[name].figures for name in methods if name != "kode"},
    }


def main(argv: list[str] | None = None) -> int:
    """Prints a table, or one JSON object with `--json`; exits 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench.retrieval")
    parser.add_argument("--data", type=Path, default=corpus("locomo-dev"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    files = sorted(options.data.glob("*.json")) if options.data.is_dir() else [options.data]
    if not files or not files[0].exists():
        print(f"No conversations in {options.data}; name a file or folder with --data.")
        return 0
    figures = measure([load(path) for path in files])
    if options.json:
        print(json.dumps(figures))
        return 0
    columns = ("recall@10", "mrr", "p@1", "any@10")
    print(f"{'':24}" + "".join(f"{name:>11}" for name in columns))
    rows = {
        "turns, kode": {name: figures.get(name, "") for name in columns},
        **{f"turns, {name}": row for name, row in figures["baselines"].items()},
        "sessions": figures["sessions"],
        "session summaries": figures["summaries"],
        "summaries, 120 chars": figures["summaries_cut_to_120"],
    }
    for name, row in rows.items():
        print(f"{name:24}" + "".join(f"{row[column]:>11}" for column in columns))
    print(f"{figures['questions']} questions, {figures['ms_per_query']} ms a query over turns")
    return 0


if __name__ == "__main__":
    sys.exit(main())
