"""Vectors: the server that makes them, the file that keeps them, and what happens when either
fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from kode.config.model import Embedding
from kode.memory.commands import run_line
from kode.memory.embed import BATCH, Embedder
from kode.memory.search import IndexedText, TextIndex, search
from tests.memory.sessions import Sessions
from tests.memory.test_search import NOW
from tests.scripted_server import ScriptedServer

TEXTS = {"a": "The user prefers tabs over spaces", "b": "Deploys happen on Friday"}


def make(url: str, folder: Path, notices: list[str], **more) -> Embedder:
    values = {"base_url": url, "model": "small", "timeout_s": 60.0, "api_key": "test", **more}
    settings = Embedding(provider="openai", **values)
    return Embedder(settings, folder / "vectors.sqlite", notices.append)


async def test_a_server_is_asked_once_for_a_text(tmp_path: Path) -> None:
    notices: list[str] = []
    with ScriptedServer([]) as server:
        first = await make(server.openai_url, tmp_path, notices).cosines("tabs", TEXTS)
        requests = len(server.requests)
        again = make(server.openai_url, tmp_path, notices)
        second = await again.cosines("tabs", TEXTS | {"c": "one more"})
        assert server.requests[-1].json["input"] == ["one more"]
        assert len(server.requests) == requests + 1
    assert first is not None
    assert second is not None
    assert {name: second[name] for name in first} == pytest.approx(first)
    assert await again.compute_missing(list(TEXTS.values())) == 0
    assert notices == []


async def test_a_system_asks_the_server_of_its_settings(tmp_path: Path) -> None:
    with ScriptedServer([]) as server:
        embedding = {"provider": "openai", "base_url": server.openai_url, "model": "small"}
        for number, dims in enumerate((None, 64)):
            settings = {"embedding": {**embedding, "api_key": "test", "dims": dims}}
            memory = await Sessions(tmp_path / f"{number}", settings=settings).open(None)
            await run_line(memory, ["add", "user", "Use tabs"])
            await memory.search("indentation", 5)
            assert server.requests[-1].json.get("dimensions") == dims


async def test_vectors_are_made_a_batch_at_a_time(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(BATCH + 5)]
    with ScriptedServer([]) as server:
        embedder = make(server.openai_url, tmp_path, [])
        assert await embedder.compute_missing(texts) == 5
        assert await embedder.compute_missing(texts) == 0


async def test_an_outage_gives_nothing_and_says_so_once(tmp_path: Path) -> None:
    notices: list[str] = []
    embedder = make("http://127.0.0.1:9/v1", tmp_path, notices, timeout_s=1.0)

    assert await embedder.cosines("tabs", TEXTS) is None
    assert await embedder.compute_missing(["another"]) is None
    assert len(notices) == 1
    assert "memory.embedding" in notices[0]


async def test_known_vectors_serve_during_an_outage(tmp_path: Path) -> None:
    with ScriptedServer([]) as server:
        url = server.openai_url
        before = await make(url, tmp_path, []).cosines("tabs", TEXTS)
    assert await make(url, tmp_path, [], timeout_s=1.0).cosines("tabs", TEXTS) == before


@pytest.mark.parametrize("damage", [b"not a database " * 500, b"", None])
async def test_a_damaged_or_missing_file_is_made_again(tmp_path: Path, damage) -> None:
    path = tmp_path / "vectors.sqlite"
    with ScriptedServer([]) as server:
        before = await make(server.openai_url, tmp_path, []).cosines("tabs", TEXTS)
        path.unlink() if damage is None else path.write_bytes(damage)
        assert await make(server.openai_url, tmp_path, []).cosines("tabs", TEXTS) == before
    assert path.stat().st_mode & 0o777 == 0o600


class Meanings(Embedder):
    """The first word of a text is its meaning; `price` means `cost`."""

    async def cosines(self, query, texts):
        meaning = {"price": "cost"}.get(query.split()[0], query.split()[0])
        return {name: 0.9 if text.startswith(meaning) else 0.1 for name, text in texts.items()}


async def test_texts_near_in_meaning_are_found_without_a_common_word(tmp_path: Path) -> None:
    index = TextIndex()
    index.update(
        [IndexedText("1", "cost of the cluster: 40"), IndexedText("2", "tabs, not spaces")]
    )
    embedder = Meanings(Embedding(), tmp_path / "vectors.sqlite", pytest.fail)

    (result,) = await search([index], "price", 5, NOW, embedder=embedder)

    assert (result.text.id, result.is_exact, result.words) == ("1", False, ())


def test_numpy_is_imported_only_for_vectors() -> None:
    code = (
        "import sys, datetime; from kode.memory import embed, judge, search; "
        "index = search.TextIndex(); index.update([search.IndexedText('1', 'tabs')]); "
        "assert index.search('tabs', 1, datetime.datetime.now(datetime.UTC)); "
        "sys.exit('numpy' in sys.modules or 'openai' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
