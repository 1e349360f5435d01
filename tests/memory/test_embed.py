"""Texts as vectors: the local projection, the server, and what happens when that fails."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kode.config import Embedding
from kode.memory.cache import VectorCache
from kode.memory.embed import LocalEmbedder, OpenAIEmbedder, embed, open_embedder
from tests.effort import share
from tests.scripted_server import ScriptedServer

CORPUS = ["The user prefers tabs over spaces", "Deploys happen on Friday", "Alice owns billing"]


def cosine(one: str, other: str) -> float:
    a, b = embed([one, other])
    return float(a @ b)


@pytest.mark.slow
def test_a_vector_is_equal_in_processes_with_other_hash_seeds() -> None:
    program = (
        "import sys; from kode.memory.embed import embed;"
        "sys.stdout.write(embed(['Größe 42: tabs, 用户']).tobytes().hex())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert found == {embed(["Größe 42: tabs, 用户"]).tobytes().hex()}


@given(st.lists(st.text(max_size=80), max_size=4))
@settings(max_examples=share(60))
def test_rows_have_length_one_or_are_zero(texts: list[str]) -> None:
    matrix = embed(texts)
    assert matrix.shape == (len(texts), 256)
    assert matrix.dtype == np.float32
    lengths = np.linalg.norm(matrix, axis=1)
    assert np.all(np.isclose(lengths, 1, atol=1e-5) | (lengths == 0))


def test_a_text_is_nearer_to_its_paraphrase_than_to_others() -> None:
    near = cosine("prefers tabs, not spaces", CORPUS[0])
    assert near > 0.3
    assert near > cosine("prefers tabs, not spaces", CORPUS[1]) + 0.2


def test_words_that_the_corpus_has_not_seen_count() -> None:
    assert cosine("kubernetes namespace", "the kubernetes namespace") > 0.8


def test_numbers_and_single_characters_count() -> None:
    assert cosine("port 8080", "port 8081") < 0.95
    assert cosine("language C", "language R") < 0.95


def test_scripts_without_spaces_share_characters() -> None:
    assert cosine("用户喜欢Python编程", "用户喜欢Python语言") > 0.4
    assert cosine("用户喜欢编程", "提交前运行测试") < 0.3


# ── a server ─────────────────────────────────────────────────────────────────────────────────


def make(url: str, folder: Path, notices: list[str], **more: Any) -> OpenAIEmbedder:
    given = {"base_url": url, "model": "small", "timeout_s": 60.0, "api_key": "test", **more}
    embedder = open_embedder(Embedding(provider="openai", **given), folder, notices.append)
    assert isinstance(embedder, OpenAIEmbedder)
    return embedder


async def test_the_default_is_local_and_touches_no_disk(tmp_path: Path) -> None:
    embedder = open_embedder(Embedding(), tmp_path / "cache", pytest.fail)
    assert isinstance(embedder, LocalEmbedder)
    assert (await embedder.embed(CORPUS)).shape == (3, embedder.dims)
    assert not embedder.is_neural
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
    assert again.is_neural
    assert again.dims == first.shape[1]
    assert np.allclose(first[:2], second[:2])
    assert notices == []


async def test_an_outage_falls_back_to_local_vectors_saying_so_once(tmp_path: Path) -> None:
    notices: list[str] = []
    embedder = make("http://127.0.0.1:9/v1", tmp_path, notices, timeout_s=1.0)
    matrix = await embedder.embed(CORPUS)
    await embedder.embed(["another"])
    assert np.array_equal(matrix, embed(CORPUS))
    assert not embedder.is_neural
    assert embedder.dims == matrix.shape[1]
    assert len(notices) == 1
    assert "memory.embedding" in notices[0]


async def test_cached_vectors_are_served_during_an_outage(tmp_path: Path) -> None:
    notices: list[str] = []
    with ScriptedServer([]) as server:
        url = server.openai_url
        known = await make(url, tmp_path, notices).embed(CORPUS)
    embedder = make(url, tmp_path, notices, timeout_s=1.0)
    assert np.allclose(await embedder.embed(CORPUS), known)
    assert embedder.is_neural
    assert notices == []


def test_a_damaged_cache_is_thrown_away(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, "space")
    cache.put({b"k" * 16: np.ones(4, dtype=np.float32)})
    assert list(cache.get([b"k" * 16])) == [b"k" * 16]
    cache.path.write_bytes(b"not a database " * 500)
    assert cache.get([b"k" * 16]) == {}
    cache.put({b"n" * 16: np.ones(4, dtype=np.float32)})
    assert list(cache.get([b"n" * 16])) == [b"n" * 16]
