"""From a query to an order: a few texts in memory, many on disk."""

import multiprocessing
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kode.memory.collection import Collection, Found, Row
from kode.memory.rank import Ranker, rank

TEXTS = [
    "The deploy script pushes the image to the registry",
    "Alice owns the billing service and its invoices",
    "Tests are run with pytest, the linter is ruff",
    "用户喜欢用中文写提交信息",
    "Python 3.12 is required because of PEP 695",
]


def order(query: str, texts: list[str] = TEXTS) -> list[int]:
    return [found.index for found in rank(query, texts)]


def test_the_text_that_holds_the_words_comes_first_whatever_their_form() -> None:
    assert order("who is the owner of invoicing?")[0] == 1
    assert order("running a test")[0] == 2


def test_a_query_that_matches_nothing_returns_nothing() -> None:
    assert order("kubernetes namespace") == []
    assert order("") == []
    assert order("!!! ???") == []


def test_question_words_match_nothing() -> None:
    assert order("what is it that you did with the") == []


def test_scripts_without_spaces_are_found_by_their_characters() -> None:
    assert order("中文提交") == [3]


def test_versions_are_one_word() -> None:
    assert order("3.12") == [4]
    assert order("3.13") == []


def test_a_result_says_which_words_matched() -> None:
    (found,) = rank("invoices of Alice", TEXTS)
    assert set(found.why.split()) == {"invoic", "alic"}


def test_of_turns_in_a_row_the_one_near_which_more_of_the_query_is_said_comes_first() -> None:
    turns = ["red red red"] * 5 + ["sea", "boat", "a red one", "sea", "sea", "boat", "boat"]

    assert rank("red boat", turns, neighbours=(0.45, 0.25))[0].index == 6


def test_neighbours_lend_their_score() -> None:
    turns = ["What is the port?", "It is 8080.", "Fine.", "See you tomorrow.", "Bye."]
    found = [r.index for r in rank("which port", turns, neighbours=(0.5, 0.25))]
    assert found == [0, 1, 2]


def test_neural_similarities_find_what_words_do_not() -> None:
    similarities = np.array([0.1, 0.9, 0.2, 0.0, 0.1], dtype=np.float32)
    (found,) = rank("accounting department", TEXTS, similarities=similarities)
    assert (found.index, found.why) == (1, "meaning")


_words = st.sampled_from("deploy test billing python image ruff invoice port 8080 the 用户".split())
_texts = st.lists(st.lists(_words, max_size=6).map(" ".join), max_size=6)


@given(_texts, st.lists(_words, min_size=1, max_size=3).map(" ".join), st.randoms())
@settings(max_examples=80)
def test_the_order_of_adding_does_not_change_a_score(texts: list[str], query: str, rng) -> None:
    shuffled = list(range(len(texts)))
    rng.shuffle(shuffled)
    scores = {found.index: found.score for found in rank(query, texts)}
    again = {
        shuffled[found.index]: found.score for found in rank(query, [texts[i] for i in shuffled])
    }
    assert scores.keys() == again.keys()
    assert all(abs(scores[i] - again[i]) < 1e-9 for i in scores)


@given(_texts, st.lists(_words, min_size=1, max_size=3).map(" ".join))
@settings(max_examples=80)
def test_adding_and_removing_leaves_the_scores_of_the_rest(texts: list[str], query: str) -> None:
    ranker = Ranker()
    extra = ranker.add("deploy test billing deploy 用户")
    for text in texts:
        ranker.add(text)
    ranker.search(query)
    ranker.remove(extra)
    found = [(r.index - 1, round(r.score, 9)) for r in ranker.search(query)]
    assert found == [(r.index, round(r.score, 9)) for r in rank(query, texts)]
    assert len(ranker) == len(texts)


# ── many texts on disk ───────────────────────────────────────────────────────────────────────


def filled(folder: Path) -> Collection:
    collection = Collection(folder / "index.sqlite")
    collection.put(Row(f"s{i}", text, stamp=str(i)) for i, text in enumerate(TEXTS))
    return collection


def ids(found: list[Found]) -> list[str]:
    return [hit.id for hit in found]


def test_a_collection_ranks_as_the_ranker_does(tmp_path: Path) -> None:
    collection = filled(tmp_path)
    for query in ("who owns invoices", "deploy image tests", "中文", "python 3.12", "nothing here"):
        expected = [(f"s{r.index}", round(r.score, 9)) for r in rank(query, TEXTS)]
        assert [(f.id, round(f.score, 9)) for f in collection.search(query, 10)] == expected
    collection.close()


def test_a_collection_is_there_for_the_next_process(tmp_path: Path) -> None:
    collection = filled(tmp_path)
    collection.set_fingerprint("v1")
    collection.close()
    again = Collection(tmp_path / "index.sqlite")
    assert again.fingerprint() == "v1"
    assert len(again) == 5
    assert again.stamps()["s3"] == "3"
    assert ids(again.search("billing", 3)) == ["s1"]
    again.close()


def test_replacing_and_removing_a_text_changes_what_is_found(tmp_path: Path) -> None:
    collection = filled(tmp_path)
    collection.put([Row("s1", "Bob owns search")])
    collection.remove(["s2", "unknown"])
    assert collection.search("billing", 3) == []
    assert ids(collection.search("Bob", 3)) == ["s1"]
    assert collection.search("pytest", 3) == []
    assert len(collection) == 4
    collection.close()


def test_a_damaged_collection_is_empty_and_can_be_filled_again(tmp_path: Path) -> None:
    collection = filled(tmp_path)
    collection.set_fingerprint("v1")
    collection.close()
    (tmp_path / "index.sqlite").write_bytes(b"not a database " * 1000)
    for beside in ("-wal", "-shm"):
        (tmp_path / f"index.sqlite{beside}").unlink(missing_ok=True)
    assert collection.search("billing", 3) is None
    assert collection.fingerprint() == ""
    collection.put([Row("s1", "billing")])
    assert ids(collection.search("billing", 3)) == ["s1"]
    collection.close()


def test_a_models_vectors_find_what_words_do_not(tmp_path: Path) -> None:
    collection = Collection(tmp_path / "index.sqlite", space="model")
    axes = np.eye(4, dtype=np.float32)
    collection.put(
        [Row("a", "red apples", vector=axes[0]), Row("b", "blue whales", vector=axes[1])]
    )
    found = collection.search("crimson fruit", 3, vector=axes[0])
    assert [(hit.id, hit.why) for hit in found] == [("a", "meaning")]
    assert ids(collection.search("whales", 3, vector=axes[0])) == ["a", "b"]
    collection.close()


def _add(folder: str, number: int) -> None:
    collection = Collection(Path(folder) / "index.sqlite")
    for i in range(10):
        collection.put([Row(f"{number}-{i}", f"episode word{number}x{i}")])
    collection.close()


def test_several_processes_add_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add, args=(str(tmp_path), n)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    collection = Collection(tmp_path / "index.sqlite")
    assert len(collection) == 30
    assert ids(collection.search("word2x7", 3)) == ["2-7"]
    collection.close()
