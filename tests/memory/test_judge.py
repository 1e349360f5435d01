"""Merge on write: which known facts a new one is compared with, and what one word does."""

import json
from pathlib import Path

import pytest

from kode.config.model import Embedding, MemoryConfig
from kode.memory.ask import MemoryModel
from kode.memory.embed import Embedder
from kode.memory.judge import SAME, UNRELATED, by_words, compare, find_near
from kode.memory.statement import NO_RELATIONS, Relations, Statement
from tests.memory.models import Model

WRITES = Path(__file__).parents[2] / "bench" / "data" / "merge.jsonl"
TEXTS = (
    "The API listens on port 8080",
    "The linter is ruff",
    "The Redis server listens on port 6379",
)
NEW = "The API server listens on port 9090"


def fact(id: str, text: str) -> Statement:
    return Statement(
        id=id, place="facts/env.md", text=text, claimed_at="2026-03-01T12:00:00.000Z", who="user"
    )


KNOWN = [fact(str(number), text) for number, text in enumerate(TEXTS)]


@pytest.mark.parametrize(
    ("answer", "relations"),
    [
        ("update-1", Relations(outdated=(("0", "new"),))),
        ("same-1", Relations(same=(("new", "0"),))),
        ("Update 2.", Relations(outdated=(("2", "new"),))),
        ("**same**", Relations(same=(("new", "0"),))),
        ("distinct", NO_RELATIONS),
        ("do not merge", NO_RELATIONS),
        *(
            (word, NO_RELATIONS)
            for word in ("", "same or update", "update-0", "same-3", "sameness")
        ),
        (ValueError("down"), NO_RELATIONS),
    ],
)
async def test_one_word_says_how_a_new_fact_relates(answer, relations):
    model = Model([answer])

    relation = await compare(fact("new", NEW), KNOWN, MemoryConfig(), MemoryModel(model))

    assert relation == relations
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("text", "known", "settings"),
    [
        ("The user lives in Oslo", KNOWN, {}),
        (NEW, [], {}),
        (TEXTS[0], KNOWN, {}),
        (NEW, KNOWN, {"merge_on_write": False}),
        (NEW, KNOWN, {"add_threshold": 1.0, "merge_threshold": 1.0}),
    ],
)
async def test_a_fact_that_is_near_none_asks_nobody(text, known, settings):
    model = Model(["update-1"])

    relation = await compare(fact("new", text), known, MemoryConfig(**settings), MemoryModel(model))

    assert relation == NO_RELATIONS
    assert model.requests == []


async def test_four_of_five_writes_of_an_ordinary_day_ask_nobody():
    shares = {"distinct": 0.80, "similar": 0.08, "duplicate": 0.08, "update": 0.04}
    stores: dict[str, list[str]] = {}
    asked, number = dict.fromkeys(shares, 0), dict.fromkeys(shares, 0)
    for row in map(json.loads, WRITES.read_text("utf-8").splitlines()):
        known = stores.setdefault(row["store"], [])
        number[row["label"]] += 1
        asked[row["label"]] += bool(await find_near(row["text"], known, MemoryConfig()))
        known.append(row["text"])
    decided = sum(share * (1 - asked[name] / number[name]) for name, share in shares.items())
    assert decided >= 0.8
    assert asked["duplicate"] >= 0.9 * number["duplicate"]


def test_nearness_is_a_share_in_any_order():
    forward, backward = by_words(NEW, TEXTS), by_words(NEW, TEXTS[::-1])
    assert all(0 <= one <= 1 for one in forward)
    assert forward == pytest.approx(backward[::-1])


class OneVector(Embedder):
    """Texts that share a meaning have a cosine of 0.9, others of 0.5, as neural ones crowd."""

    async def cosines(self, query, texts):
        pairs = [{*pair} for pair in (*SAME, (NEW, TEXTS[2]))]
        assert not any({*pair} in pairs for pair in UNRELATED)
        return {name: 0.9 if {query, text} in pairs else 0.5 for name, text in texts.items()}


async def test_an_embedder_chooses_by_its_own_scale(tmp_path):
    embedder = OneVector(Embedding(), tmp_path / "vectors.sqlite", pytest.fail)
    assert await find_near(NEW, TEXTS, MemoryConfig(), embedder) == [2]
