"""Episodes found: a cache that is never trusted further than it goes, and many episodes in it."""

import multiprocessing
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from kode.memory import rank as ranking
from kode.memory.rank import Text
from kode.memory.tiered import episode_index
from kode.memory.tiered.episode_files import Episode, EpisodeFiles
from kode.memory.tiered.episode_index import EpisodeIndex
from tests.memory.life import memory_context, opened

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
TEXTS = [
    "The deploy script pushes the image to the registry",
    "Alice owns the billing service and its invoices",
    "Tests are run with pytest, the linter is ruff",
    "用户喜欢用中文写提交信息",
    "Python 3.12 is required because of PEP 695",
]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "memory" / "episodes"


def episode(id: str, text: str, *, project: str = "", since: str = "", until: str = "") -> Episode:
    until = until or NOW.isoformat()
    since = since or until
    values = {"session_id": id, "turns": 3, "narrative": text, "project": project}
    return Episode(**values, created_at=since, updated_at=until)


def written(folder: Path, *episodes: Episode) -> EpisodeFiles:
    folder.mkdir(parents=True, exist_ok=True)
    files = EpisodeFiles(folder)
    for one in episodes:
        files.write(one)
    return files


def index_of(folder: Path, *, embedder=None, read_only: bool = False) -> EpisodeIndex:
    context = memory_context(folder, now=lambda: NOW, read_only=read_only)
    return EpisodeIndex(replace(context, root=folder.parent), embedder)


def filled(folder: Path) -> EpisodeIndex:
    written(folder, *(episode(f"s{i}", text) for i, text in enumerate(TEXTS)))
    return index_of(folder)


async def found(index: EpisodeIndex, query: str) -> list[str]:
    return [id for id, _ in await index.search(query, 5)]


def database(folder: Path) -> Path:
    return folder / ".search" / "episodes.sqlite"


async def test_episodes_rank_as_texts_do_that_are_few(folder):
    index = filled(folder)
    few = [Text("", text) for text in TEXTS]
    queries = ("who owns invoices", "deploy image tests", "中文", "python 3.12", "nothing here")
    for query in (*queries, "regstry", "PyTest", "linter is", "its"):
        expected = [(f"s{r.index}", r.matched) for r in ranking.rank(query, few, NOW)]
        assert [(id, one.matched) for id, one in await index.search(query, 10)] == expected


async def test_a_search_follows_new_gone_and_replaced_episodes(folder):
    index = filled(folder)
    assert await found(index, "billing") == ["s1"]
    (folder / "s2.md").unlink()
    written(folder, episode("s1", "Bob owns search"), episode("s9", "a zeppelin"))

    assert await found(index, "billing") == []
    assert await found(index, "Bob") == ["s1"]
    assert await found(index, "pytest") == []
    assert await found(index, "zeppelin") == ["s9"]


async def test_an_edit_in_place_is_found_after_a_refresh(folder):
    index = filled(folder)
    await index.search("billing", 1)
    (folder / "s1.md").write_text("now about zeppelins")

    await index.refresh()

    assert await found(index, "zeppelin") == ["s1"]
    assert await found(index, "billing") == []


async def test_an_episode_put_in_is_found_without_reading_the_others(folder, monkeypatch):
    index = filled(folder)
    await index.search("billing", 1)
    await index.refresh()
    was_current = index.is_current()
    files = written(folder, new := episode("s9", "a zeppelin"))
    index.put(new, None, was_current=was_current)
    monkeypatch.setattr(index, "_refresh", pytest.fail)

    assert was_current
    assert await found(index, "zeppelin") == ["s9"]
    assert files.path("s9").exists()


async def test_a_continued_session_belongs_to_each_of_its_days(folder):
    written(
        folder,
        episode("long", "a", since="2026-03-01T09:00:00+00:00", until="2026-03-03T09:00:00+00:00"),
        episode("old", "b", until="2026-01-01T09:00:00+00:00"),
    )
    index = index_of(folder)

    assert await found(index, "what of 2026-03-02?") == ["long"]
    assert await found(index, "what did we do last time?") == ["long", "old"]
    assert await found(index, "2026-02-02") == []


@pytest.mark.parametrize("read_only", [False, True])
async def test_the_newest_are_those_of_the_project_and_of_none(folder, read_only):
    index = index_of(folder, read_only=read_only)
    written(
        folder,
        episode("1", "a", project=index.project, until="2026-03-01T00:00:00+00:00"),
        episode("2", "b", until="2026-02-01T00:00:00+00:00"),
        episode("3", "c", project="another", until="2026-03-02T00:00:00+00:00"),
        episode("4", "d", project=index.project, until="2026-01-01T00:00:00+00:00"),
    )

    assert [one.session_id for one in await index.newest(2, of_project=True)] == ["1", "2"]
    assert [one.session_id for one in await index.newest(9)] == ["3", "1", "2", "4"]


# ── the file ─────────────────────────────────────────────────────────────────────────────────


def damage(path: Path) -> None:
    path.write_bytes(b"not a database " * 1000)


def of_an_earlier_kode(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as old, old:
        old.execute("CREATE TABLE texts (place INTEGER PRIMARY KEY, id TEXT, terms TEXT)")
        old.execute("INSERT INTO texts (id, terms) VALUES ('s1', 'bill')")


@pytest.mark.parametrize("spoil", [damage, of_an_earlier_kode, Path.unlink])
async def test_a_cache_that_cannot_be_used_is_made_again(folder, spoil):
    await found(filled(folder), "billing")
    spoil(database(folder))
    index = index_of(folder)

    assert await found(index, "billing") == ["s1"]
    assert await found(index, "registry") == ["s0"]
    assert index.is_current() or await found(index, "invoices") == ["s1"]


async def test_a_cache_of_another_tokenizer_is_made_again(folder, monkeypatch):
    await found(filled(folder), "billing")
    monkeypatch.setattr(episode_index, "VERSION", 1_000)

    assert not index_of(folder).is_current()
    assert await found(index_of(folder), "billing") == ["s1"]


async def test_a_reader_uses_the_cache_and_changes_nothing(folder, monkeypatch):
    index = filled(folder)
    await index.refresh()
    await found(index, "billing")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    reader = index_of(folder, read_only=True)
    assert reader.is_current()

    with monkeypatch.context() as patch:
        patch.setattr(reader, "_refresh", pytest.fail)
        assert await found(reader, "billing") == ["s1"]
    database(folder).write_bytes(b"spoiled")
    assert await found(index_of(folder, read_only=True), "billing") == ["s1"]

    assert database(folder).read_bytes() == b"spoiled"
    database(folder).write_bytes(before[database(folder)])
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


async def test_a_person_finds_the_oldest_after_the_index_is_gone(folder):
    written(folder, *(episode(f"s{i}", text) for i, text in enumerate(TEXTS)))
    system = await opened(folder.parents[1], session_id=None, read_only=True)
    hits = await system.search("registry", 3)
    (folder / "s0.md").write_text("now about zeppelins")  # without a change of the folder

    again = await system.search("zeppelins", 3)

    assert [hit.where for hit in (*hits, *again)] == ["episodes/s0.md"] * 2
    assert system.unread == 0


async def test_a_search_says_how_many_it_has_not_looked_at(folder, monkeypatch):
    index = filled(folder)
    monkeypatch.setattr(episode_index, "BATCH", 2)
    monkeypatch.setattr(episode_index, "SEARCH_WAITS_S", -1)
    reader = index_of(folder, read_only=True)

    assert await found(index, "registry") == await found(reader, "registry") == []
    assert (index.unread, reader.unread) == (5, 5)

    await index.refresh()

    assert await found(index, "registry") == ["s0"]
    assert index.unread == 0


async def test_a_search_costs_the_same_however_long_its_query(folder):
    index = filled(folder)
    asked: list[int] = []
    read = index._texts._known
    index._texts._known = lambda some: asked.append(len(listed := list(some))) or read(listed)

    await index.search(" ".join(f"strange{n}" for n in range(5_000)), 3)

    assert 0 < sum(asked) < 10 * ranking.MAX_QUERY_WORDS


# ── a model's vectors ────────────────────────────────────────────────────────────────────────


class Fruit:
    """A model that knows fruit from whales."""

    name, dims = "fruit", 2

    async def embed(self, texts):
        rows = [[1, 0] if "apple" in text or "fruit" in text else [0, 1] for text in texts]
        return np.array(rows, dtype=np.float32)


async def test_a_models_vectors_find_what_words_do_not(folder):
    written(folder, episode("a", "red apples"), episode("b", "blue whales"))
    index = index_of(folder, embedder=Fruit())

    ((id, ranked),) = await index.search("crimson fruit", 3)

    assert (id, ranked.why) == ("a", "near in meaning")
    assert set(await found(index, "red whales")) == {"a", "b"}


async def test_another_embedder_makes_its_own_vectors(folder):
    await found(filled(folder), "billing")
    written(folder, episode("a", "red apples"))

    assert (await found(index_of(folder, embedder=Fruit()), "crimson fruit")) == ["a"]


# ── several at once ──────────────────────────────────────────────────────────────────────────


def _add(folder: str, number: int) -> None:
    index = index_of(Path(folder))
    for i in range(10):
        index.take_in([(episode(f"{number}-{i}", f"word{number}x{i}"), "", None)])


@pytest.mark.slow
async def test_several_processes_add_at_once(folder):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add, args=(str(folder), n)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    index = index_of(folder)

    assert len(index._cache.rows("SELECT id FROM episodes")) == 30
    assert index._search("word2x7", 3, None, 4)[0][0] == "2-7"
