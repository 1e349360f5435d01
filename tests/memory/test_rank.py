"""From a query to an order: a few texts as they are, many on disk, in words and in time."""

import multiprocessing
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kode.memory import rank as ranking
from kode.memory import terms
from kode.memory.collection import Collection, Row
from kode.memory.rank import Ranked, Text, rank

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
TEXTS = [
    "The deploy script pushes the image to the registry",
    "Alice owns the billing service and its invoices",
    "Tests are run with pytest, the linter is ruff",
    "用户喜欢用中文写提交信息",
    "Python 3.12 is required because of PEP 695",
]


def ranked(query: str, texts: list[str], **more) -> list[Ranked]:
    return rank(query, [Text("", text) for text in texts], NOW, **more)


def order(query: str, texts: list[str] = TEXTS) -> list[int]:
    return [found.index for found in ranked(query, texts)]


def test_the_text_that_holds_the_words_comes_first_whatever_their_form() -> None:
    assert order("who is the owner of invoicing?")[0] == 1
    assert order("running a test")[0] == 2


@pytest.mark.parametrize("query", ["kubernetes namespace", "", "!!! ???", "cake", "5433"])
def test_a_query_that_matches_nothing_returns_nothing(query: str) -> None:
    assert order(query, [*TEXTS, "The port is 5432", "make lint"]) == []


def test_question_words_match_nothing() -> None:
    assert order("what is it that you did with the") == []


@pytest.mark.parametrize("query", ["type", "Kind", "on off", "OnOff", "onoff"])
def test_a_query_of_nothing_but_common_words_finds_them_as_they_stand(query: str) -> None:
    texts = ["Use type hints", "Clusters run in kind", "The switch goes on off on", "off, not on"]
    assert order(query, texts) == [
        ["type", "kind", "on off"].index(query.lower().replace("onoff", "on off"))
    ]


def test_scripts_without_spaces_are_found_by_their_characters() -> None:
    assert order("中文提交") == [3]


def test_versions_are_one_word() -> None:
    assert order("3.12") == [4]
    assert order("3.13") == []


def test_a_result_says_which_words_matched_and_whether_all_did() -> None:
    (found,) = ranked("invoices of Alice", TEXTS)
    assert set(found.matched) == {"invoices", "alice"}
    assert found.is_whole
    assert not ranked("invoices of Bob", TEXTS)[0].is_whole


# ── spelling ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "query",
    ["registri", "regisry", "regstry", "reigstry", "registrry", "xegistry", "pytset", "lintr"],
)
def test_a_rare_word_with_one_typo_is_found(query: str) -> None:
    assert len(order(query)) == 1


def test_a_typo_in_another_alphabet_is_found() -> None:
    assert order("выкладкв", ["выкладка по пятницам", "тесты"]) == [0]


@pytest.mark.parametrize("query", ["patch", "ports", "5431", "3.11"])
def test_neither_common_words_nor_numbers_are_taken_for_typos(query: str) -> None:
    texts = [f"batch {n}, sorts, 5432 and 3.12" for n in range(9)]
    assert order(query, texts) == []


def test_a_text_pasted_as_a_query_is_not_searched_for_typos() -> None:
    pasted = "the pytset of " + " ".join(f"unknown{n}" for n in range(20))
    assert order(pasted) == []


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


def test_of_turns_in_a_row_the_one_near_which_more_of_the_query_is_said_comes_first() -> None:
    turns = ["a boat", "sea", "sea", "a boat", "a red one", "sea"]
    texts = [Text("", turn, row="a talk") for turn in turns]

    assert [found.index for found in rank("red boat", texts, NOW)] == [4, 3, 0]


def test_a_neighbour_that_says_nothing_of_the_query_is_not_found() -> None:
    texts = [Text("", turn, row="a talk") for turn in ("Which port?", "8080.", "Fine.")]

    assert [found.index for found in rank("port", texts, NOW)] == [0]


def test_texts_of_different_rows_lend_each_other_nothing() -> None:
    apart = [Text("", "red", row="a"), Text("", "boat", row="b"), Text("", "sea", row="c")]
    alone = [Text("", text.text) for text in apart]

    assert rank("red boat", apart, NOW) == rank("red boat", alone, NOW)


def test_neural_cosines_find_what_words_do_not() -> None:
    (found,) = ranked("accounting department", TEXTS, cosines=[0.1, 0.9, 0.2, 0.0, 0.1])
    assert (found.index, found.why) == (1, "near in meaning")


# ── time ─────────────────────────────────────────────────────────────────────────────────────


DAYS = {
    "2026-03-04": "today",
    "2026-03-03": "yesterday",
    "2026-03-01": "three days ago",
    "2026-02-25": "last week",
    "2026-02-02": "last month",
    "2026-01-03": "a date",
}


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("what did we do last time?", ["2026-03-04", "2026-03-03", "2026-03-01"]),
        ("Continue where we stopped", ["2026-03-04", "2026-03-03", "2026-03-01"]),
        ("what did we do yesterday?", ["2026-03-03"]),
        ("3 days ago", ["2026-03-01"]),
        ("last week", ["2026-03-01", "2026-02-25"]),
        ("what happened last month", ["2026-02-25", "2026-02-02"]),
        ("2026-01-03", ["2026-01-03"]),
        ("what was on 2026-02-02?", ["2026-02-02"]),
        ("in 2026-01", ["2026-01-03"]),
        ("a month ago", ["2026-02-25", "2026-02-02"]),
        ("2026-02-30", []),
        ("2025-12-31", []),
    ],
)
def test_a_question_of_time_finds_by_time_the_newest_first(query: str, days: list[str]) -> None:
    texts = [Text(day, "worked on the parser", f"{day}T11:00:00Z") for day in DAYS]

    assert [texts[found.index].where for found in rank(query, texts, NOW)] == days


def test_words_beside_a_time_choose_among_its_texts() -> None:
    texts = [
        Text("a", "the parser", "2026-03-03T10:00:00Z"),
        Text("b", "the uploader", "2026-03-03T11:00:00Z"),
        Text("c", "the uploader", "2026-02-01T11:00:00Z"),
    ]
    found = rank("the uploader of yesterday", texts, NOW)
    assert texts[found[0].index].where == "b"
    assert [one.is_whole for one in found] == [True, False, False]


def test_a_text_that_says_the_time_itself_is_found_too() -> None:
    texts = [Text("a", "Released on 2026-01-03"), Text("b", "Seen yesterday"), Text("c", "else")]
    assert [one.index for one in rank("2026-01-03", texts, NOW)] == [0]
    assert [one.index for one in rank("yesterday", texts, NOW)] == [1]


def test_of_equal_texts_the_newer_comes_first() -> None:
    texts = [Text("", "the parser", f"2026-0{month}-01T00:00:00Z") for month in (1, 3, 2)]
    assert [one.index for one in rank("parser", texts, NOW)] == [1, 2, 0]


# ── identifiers ──────────────────────────────────────────────────────────────────────────────

_parts = st.lists(st.from_regex(r"[a-z]{2,8}", fullmatch=True), min_size=2, max_size=4)
STYLES = {
    "camel": lambda parts: parts[0] + "".join(map(str.capitalize, parts[1:])),
    "Pascal": lambda parts: "".join(map(str.capitalize, parts)),
    "snake": "_".join,
    "SCREAMING": lambda parts: "_".join(parts).upper(),
    "kebab": "-".join,
    "dotted": ".".join,
    "flat": "".join,
    "FLAT": lambda parts: "".join(parts).upper(),
    "spaced": " ".join,
    "Spaced": lambda parts: " ".join(parts).title(),
}
_styles = st.sampled_from(sorted(STYLES))


@given(_parts, _styles, _styles)
@settings(max_examples=300)
def test_a_name_is_found_however_it_is_joined_and_capitalised(
    parts: list[str], written: str, asked: str
) -> None:
    texts = [f"The setting is {STYLES[written](parts)} here", "Something else entirely"]

    assert 0 in order(STYLES[asked](parts), texts)


@given(st.text(min_size=1, max_size=30))
def test_a_term_is_never_split_by_the_index(text: str) -> None:
    assert all(" " not in term and '"' not in term for term in terms.terms_of(text))


# ── invariants ───────────────────────────────────────────────────────────────────────────────

_words = st.sampled_from("deploy test billing python image ruff invoice port 8080 the 用户".split())
_texts = st.lists(st.lists(_words, max_size=6).map(" ".join), max_size=6)


@given(_texts, st.lists(_words, min_size=1, max_size=3).map(" ".join), st.randoms())
@settings(max_examples=80)
def test_the_order_of_adding_does_not_change_a_score(texts: list[str], query: str, rng) -> None:
    shuffled = list(range(len(texts)))
    rng.shuffle(shuffled)
    scores = {found.index: found.score for found in ranked(query, texts)}
    again = {
        shuffled[found.index]: found.score for found in ranked(query, [texts[i] for i in shuffled])
    }
    assert scores.keys() == again.keys()
    assert all(abs(scores[i] - again[i]) < 1e-9 for i in scores)


# ── many texts on disk ───────────────────────────────────────────────────────────────────────


def filled(folder: Path) -> Collection:
    collection = Collection(folder / "index.sqlite")
    collection.put(Row(f"s{i}", text, stamp=str(i)) for i, text in enumerate(TEXTS))
    return collection


def ids(found: list[tuple[str, Ranked]] | None) -> list[str]:
    assert found is not None
    return [id for id, _ in found]


def test_a_collection_ranks_as_texts_are_ranked_as_they_are(tmp_path: Path) -> None:
    collection = filled(tmp_path)
    queries = ("who owns invoices", "deploy image tests", "中文", "python 3.12", "nothing here")
    for query in (*queries, "regstry", "PyTest", "linter is", "type"):
        expected = [(f"s{r.index}", round(r.score, 9), r.matched) for r in ranked(query, TEXTS)]
        found = collection.search(query, 10, NOW)
        assert [(id, round(one.score, 9), one.matched) for id, one in found] == expected
    collection.close()


def test_a_collection_is_there_for_the_next_process(tmp_path: Path) -> None:
    collection = filled(tmp_path)
    collection.set_fingerprint("v1")
    collection.close()
    again = Collection(tmp_path / "index.sqlite")
    assert again.fingerprint() == "v1"
    assert len(again) == 5
    assert again.stamps()["s3"] == "3"
    assert ids(again.search("billing", 3, NOW)) == ["s1"]
    again.close()


def test_replacing_and_removing_a_text_changes_what_is_found(tmp_path: Path) -> None:
    collection = filled(tmp_path)
    collection.put([Row("s1", "Bob owns search")])
    collection.remove(["s2", "unknown"])
    assert collection.search("billing", 3, NOW) == []
    assert ids(collection.search("Bob", 3, NOW)) == ["s1"]
    assert collection.search("pytest", 3, NOW) == []
    assert len(collection) == 4
    collection.close()


def test_a_collection_finds_by_time_and_knows_the_newest_of_a_project(tmp_path: Path) -> None:
    collection = Collection(tmp_path / "index.sqlite")
    span = {"since": "2026-03-01T09:00:00Z", "until": "2026-03-03T09:00:00Z"}
    now = "2026-03-04T00:00:00Z"
    old = {"since": "2026-01-01T09:00:00Z", "until": "2026-01-01T10:00:00Z"}
    collection.put(
        [
            Row("long", "a", project="here", **span),
            Row("old", "b", project="here", **old),
            Row("nowhere", "c", since="2026-01-02T00:00:00Z", until="2026-01-02T00:00:00Z"),
            Row("there", "d", project="there", since=now, until=now),
        ]
    )
    # A session that was continued belongs to each of its days.
    assert ids(collection.search("what of 2026-03-02?", 3, NOW)) == ["long"]
    assert ids(collection.search("last time", 3, NOW)) == ["there", "long", "nowhere"]
    assert collection.newest(2, "here") == ["long", "nowhere"]
    assert collection.newest(1) == ["there"]
    collection.close()


def test_a_damaged_collection_is_empty_and_can_be_filled_again(tmp_path: Path) -> None:
    collection = filled(tmp_path)
    collection.set_fingerprint("v1")
    collection.close()
    (tmp_path / "index.sqlite").write_bytes(b"not a database " * 1000)
    assert collection.search("billing", 3, NOW) is None
    assert collection.fingerprint() == ""
    collection.put([Row("s1", "billing")])
    assert ids(collection.search("billing", 3, NOW)) == ["s1"]
    collection.close()


def test_a_collection_of_an_earlier_kode_is_made_again(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "index.sqlite") as old:
        old.execute("CREATE TABLE texts (place INTEGER PRIMARY KEY, id TEXT, terms TEXT)")
        old.execute("INSERT INTO texts (id, terms) VALUES ('s1', 'bill')")
    old.close()
    collection = Collection(tmp_path / "index.sqlite")
    assert (len(collection), collection.fingerprint()) == (0, "")
    collection.put([Row("s1", "billing")])
    assert ids(collection.search("billing", 3, NOW)) == ["s1"]
    collection.close()


def test_a_collection_read_by_another_tokenizer_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = filled(tmp_path)
    collection.set_fingerprint("v1")
    collection.close()
    monkeypatch.setattr("kode.memory.collection.VERSION", 1_000)
    assert Collection(tmp_path / "index.sqlite").fingerprint() == ""


def test_a_models_vectors_find_what_words_do_not(tmp_path: Path) -> None:
    collection = Collection(tmp_path / "index.sqlite", space="model")
    axes = np.eye(4, dtype=np.float32)
    collection.put(
        [Row("a", "red apples", vector=axes[0]), Row("b", "blue whales", vector=axes[1])]
    )
    ((id, found),) = collection.search("crimson fruit", 3, NOW, vector=axes[0])
    assert (id, found.why) == ("a", "near in meaning")
    assert set(ids(collection.search("whales", 3, NOW, vector=axes[0]))) == {"a", "b"}
    collection.close()


def test_what_a_query_costs_has_a_limit(tmp_path: Path) -> None:
    collection = Collection(tmp_path / "index.sqlite")
    collection.put(Row(f"s{n}", f"common rare{n} words") for n in range(300))
    asked: list[int] = []
    read = collection._index._known
    collection._index._known = lambda some: asked.append(len(list(some))) or read(some)
    collection.search(" ".join(f"strange{n}" for n in range(5_000)), 3, NOW)
    assert sum(asked) < 10 * ranking.MAX_QUERY_WORDS
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
    assert ids(collection.search("word2x7", 3, NOW)) == ["2-7"]
    collection.close()
