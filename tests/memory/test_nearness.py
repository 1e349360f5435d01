import zlib

import numpy as np
import pytest

from kode.memory import nearness, terms
from kode.memory.tiered.facts import parse
from tests.memory.life import notices, opened, settings, use, user_file, write_facts


class Crowded:
    """A neural embedder in miniature: all its cosines lie between 0.6 and 1."""

    name = "crowded"
    dims = 65

    def __init__(self, *, up=True):
        self.up = up
        self.calls = []

    async def embed(self, texts):
        self.calls.append(list(texts))
        if not self.up:
            return None
        rows = [np.zeros(64) for _ in texts]
        for row, text in zip(rows, texts, strict=True):
            for word in terms.telling(text):
                row[zlib.crc32(word.encode()) % 64] += 1
        spread = np.stack([row / (np.linalg.norm(row) or 1) for row in rows]) * np.sqrt(0.4)
        same = np.full((len(texts), 1), np.sqrt(0.6), dtype=np.float32)
        return np.hstack([spread, same]).astype(np.float32)


async def test_the_words_decide_where_there_is_no_embedder():
    assert await nearness.cosines(None, "a", ["b"]) is None


async def test_the_words_decide_where_the_embedder_fails():
    assert await nearness.cosines(Crowded(up=False), "a", ["b"]) is None


async def test_crowded_cosines_are_spread_over_the_thresholds_scale():
    stored = ["Tests are run with pytest", "User has a cat"]

    same, unrelated = await nearness.cosines(Crowded(), "Tests are run with pytest", stored)

    assert same >= 0.7
    assert unrelated <= 0.3


async def test_one_request_holds_everything_so_that_the_space_is_one():
    embedder = Crowded()

    await nearness.cosines(embedder, "new", ["old"])

    assert embedder.calls == [[*nearness.TEXTS, "new", "old"]]


async def test_an_embedding_outage_costs_one_line_and_no_fact(tmp_path):
    write_facts(user_file(tmp_path), "User has a cat", "User likes tabs")
    events = []
    nowhere = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1", "timeout_s": 1}
    config = settings(embedding=nowhere)
    system = await opened(tmp_path, config=config, emit=events.append)

    await use(system, action="add", target="user", content="User lives in Lisbon")
    hits = await system.search("cat", 3)

    assert parse(user_file(tmp_path).read_text())[2:] == ("User lives in Lisbon",)
    assert hits[0].text == "User has a cat"
    assert len(notices(events)) == 1


def test_the_fewer_texts_hold_a_word_the_more_it_counts():
    entries = ["User likes tea", "User likes jam", "User likes rye", "User owns a Zeppelin"]

    common, _, _, rare = nearness.local_nearness("User sold the Zeppelin", entries)

    assert common < 0.3 <= rare


def test_nearness_runs_from_no_shared_word_to_the_same_words():
    assert nearness.local_nearness("tests run with pytest", ["pytest runs the tests", "a cat"]) == [
        pytest.approx(1.0),
        0.0,
    ]
    assert nearness.local_nearness("the", ["the", ""]) == [0.0, 0.0]


def test_the_band_of_an_undiscerning_embedder_has_a_width():
    pairs = len(nearness.SAME) + len(nearness.DIFFERENT)

    merge_at, add_at = nearness.thresholds([1.0] * pairs)

    assert merge_at - add_at == pytest.approx(nearness.SMALLEST_BAND)
    assert nearness.on_scale(merge_at, (merge_at, add_at)) == pytest.approx(0.7)
    assert nearness.on_scale(add_at, (merge_at, add_at)) == pytest.approx(0.3)
    assert nearness.on_scale(-1.0, (merge_at, add_at)) == 0.0
