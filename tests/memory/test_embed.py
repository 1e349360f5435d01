"""Texts as vectors: the server that makes them, and what happens when it fails."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kode.config import Embedding
from kode.memory.cache import VectorCache
from kode.memory.embed import OpenAIEmbedder, open_embedder
from tests.scripted_server import ScriptedServer

CORPUS = ["The user prefers tabs over spaces", "Deploys happen on Friday", "Alice owns billing"]


def make(url: str, folder: Path, notices: list[str], **more: Any) -> OpenAIEmbedder:
    given = {"base_url": url, "model": "small", "timeout_s": 60.0, "api_key": "test", **more}
    embedder = open_embedder(Embedding(provider="openai", **given), folder, notices.append)
    assert isinstance(embedder, OpenAIEmbedder)
    return embedder


def test_there_is_no_embedder_without_a_server(tmp_path: Path) -> None:
    assert open_embedder(Embedding(), tmp_path / "cache", pytest.fail) is None
    assert not (tmp_path / "cache").exists()


async def test_a_server_is_asked_once_for_a_text(tmp_path: Path) -> None:
    notices: list[str] = []
    with ScriptedServer([]) as server:
        first = await make(server.openai_url, tmp_path, notices).embed(CORPUS)
        asked = len(server.requests)
        again = make(server.openai_url, tmp_path, notices)
        second = await again.embed([*CORPUS[:2], "one more"])
        assert len(server.requests) == asked + 1
        assert server.requests[-1].json["input"] == ["one more"]
    assert first is not None
    assert second is not None
    assert again.dims == first.shape[1]
    assert np.allclose(first[:2], second[:2])
    assert notices == []


async def test_an_outage_gives_no_vectors_and_says_so_once(tmp_path: Path) -> None:
    notices: list[str] = []
    embedder = make("http://127.0.0.1:9/v1", tmp_path, notices, timeout_s=1.0)
    assert await embedder.embed(CORPUS) is None
    assert await embedder.embed(["another"]) is None
    assert len(notices) == 1
    assert "memory.embedding" in notices[0]


async def test_cached_vectors_are_served_during_an_outage(tmp_path: Path) -> None:
    notices: list[str] = []
    with ScriptedServer([]) as server:
        url = server.openai_url
        known = await make(url, tmp_path, notices).embed(CORPUS)
    embedder = make(url, tmp_path, notices, timeout_s=1.0)
    assert known is not None
    assert np.allclose(await embedder.embed(CORPUS), known)
    assert notices == []


def test_a_damaged_cache_is_thrown_away(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, "space")
    cache.put({b"k" * 16: np.ones(4, dtype=np.float32)})
    assert list(cache.get([b"k" * 16])) == [b"k" * 16]
    cache.path.write_bytes(b"not a database " * 500)
    assert cache.get([b"k" * 16]) == {}
    cache.put({b"n" * 16: np.ones(4, dtype=np.float32)})
    assert list(cache.get([b"n" * 16])) == [b"n" * 16]
