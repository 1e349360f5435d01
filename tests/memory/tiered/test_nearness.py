import numpy as np

from kode.memory.embed import LocalEmbedder
from kode.memory.embed import embed as local
from kode.memory.tiered import calibrate
from kode.memory.tiered.facts import parse
from kode.memory.tiered.nearness import Nearness
from tests.memory.life import notices, opened, settings, use, user_file, write_facts


class Crowded:
    """A neural embedder in miniature: all its cosines lie between 0.6 and 1."""

    name = "crowded"
    dims = 257

    def __init__(self, *, up=True):
        self.is_neural = up
        self.calls = []

    async def embed(self, texts, idf=None):
        self.calls.append(list(texts))
        spread = local(texts) * np.sqrt(0.4)
        same = np.full((len(texts), 1), np.sqrt(0.6), dtype=np.float32)
        return np.hstack([spread, same]).astype(np.float32)


async def test_the_built_in_embedder_leaves_it_to_the_merge():
    assert await Nearness(LocalEmbedder()).cosines("a", ["b"]) is None


async def test_a_neural_embedder_that_is_down_leaves_it_to_the_merge_too():
    assert await Nearness(Crowded(up=False)).cosines("a", ["b"]) is None


async def test_cosines_that_crowd_are_spread_over_the_scale_of_the_thresholds():
    nearness = Nearness(Crowded())
    stored = ["Tests are run with pytest", "User has a cat"]

    same, unrelated = await nearness.cosines("Tests are run with pytest", stored)

    assert same >= 0.7
    assert unrelated <= 0.3


async def test_one_request_holds_everything_so_that_the_space_is_one():
    embedder = Crowded()

    await Nearness(embedder).cosines("new", ["old"])

    assert embedder.calls == [[*calibrate.TEXTS, "new", "old"]]


async def test_a_server_that_is_down_costs_one_line_and_no_fact(tmp_path):
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
