"""From a query to texts in order: by words in whatever spelling, by time, beside neighbours, and by
a model or vectors where words find too little."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from kode.memory import search as searching
from kode.memory.ask import MemoryModel
from kode.memory.search import IndexedText, Ranked, TextIndex, recall_texts, search
from tests.effort import share
from tests.memory.models import Model

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
TEXTS = [
    "The deploy script pushes the image to the registry",
    "Alice owns the billing service and its invoices",
    "Tests are run with pytest, the linter is ruff",
    "用户喜欢用中文写提交信息",
    "Python 3.12 is required because of PEP 695",
]


def index_of(texts: list[str] | list[IndexedText]) -> TextIndex:
    index = TextIndex()
    index.update(
        [
            text if isinstance(text, IndexedText) else IndexedText(str(number), text)
            for number, text in enumerate(texts)
        ]
    )
    return index


def ranked(query: str, texts: list[str] | list[IndexedText], **more) -> list[Ranked]:
    return index_of(texts).search(query, 50, NOW, **more)


def order(query: str, texts: list[str] = TEXTS) -> list[int]:
    return [int(one.text.id) for one in ranked(query, texts)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("who is the owner of invoicing?", [1]),
        ("running a test", [2]),
        ("中文提交", [3]),
        ("3.12", [4]),
        ("3.13", []),
        ("kubernetes namespace", []),
        ("", []),
        ("!!! ???", []),
        ("what is it that you did with the", []),
    ],
)
def test_words_are_found_in_any_form_and_nothing_else(query: str, found: list[int]) -> None:
    assert order(query)[:1] == found


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("postgresql", "PostgreSQL holds the data"),
        ("max retries", "see maxRetries"),
        ("maxRetries", "the max retries of a call"),
        ("Café", "the cafe at noon"),
        ("выкладкв", "выкладка по пятницам"),
        ("настройками", "настройки сервера"),
        ("हिन्दी", "वह हिन्दी में लिखता है"),
        *((typo, TEXTS[0]) for typo in ("regisry", "regstry", "reigstry", "registrry", "xegistry")),
        ("pytset", TEXTS[2]),
    ],
)
def test_a_word_is_found_in_another_spelling(query: str, text: str) -> None:
    assert order(query, [text, "Something else entirely"]) == [0]


@pytest.mark.parametrize("query", ["patch", "ports", "5431", "3.11", "barb" * 90])
def test_neither_common_words_nor_numbers_are_taken_for_typos(query: str) -> None:
    assert order(query, [f"batch {n}, sorts, 5432 and 3.12" for n in range(9)]) == []


def test_a_pasted_text_is_not_searched_for_typos() -> None:
    assert order("the pytset of " + " ".join(f"unknown{n}" for n in range(20))) == []


@pytest.mark.parametrize(
    ("query", "is_exact"),
    [("invoices of Alice", True), ("invoices of Bob", False), ("invoises of Alice", False)],
)
def test_a_result_with_every_word_as_spelled_is_exact(query, is_exact) -> None:
    assert ranked(query, TEXTS)[0].is_exact is is_exact


def test_a_turn_with_more_of_the_query_nearby_ranks_higher() -> None:
    turns = ["a boat", "sea", "sea", "a boat", "a red one", "sea"]
    texts = [IndexedText(str(n), turn, row="a talk") for n, turn in enumerate(turns)]
    apart = [IndexedText(str(n), turn, row=str(n)) for n, turn in enumerate(turns)]

    assert [one.text.id for one in ranked("red boat", texts)] == ["4", "3", "0"]
    assert ranked("red boat", apart)[1].score == ranked("red boat", apart)[2].score


DAYS = ("2026-03-04", "2026-03-03", "2026-03-01", "2026-02-25", "2026-02-02", "2026-01-03")


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("what did we do last time?", DAYS[:3]),
        ("Continue where we stopped", DAYS[:3]),
        ("what did we do yesterday?", DAYS[1:2]),
        ("what happened in 2026-02", DAYS[3:5]),
        ("in 2026-01", DAYS[5:]),
        ("2026-02-30", ()),
        ("9999-12-31", ()),
        ("2025-12-31", ()),
    ],
)
def test_a_question_of_time_finds_by_time_the_newest_first(query: str, days) -> None:
    texts = [IndexedText(day, "worked on the parser", at=f"{day}T11:00:00.000Z") for day in DAYS]
    assert [one.text.id for one in ranked(query, texts)] == list(days)


def test_words_beside_a_time_choose_among_its_texts() -> None:
    rows = (("a", "parser", "03-03"), ("b", "uploader", "03-03"), ("c", "uploader", "02-01"))
    texts = [IndexedText(id, word, at=f"2026-{day}T10:00:00.000Z") for id, word, day in rows]
    assert ranked("the uploader of yesterday", texts)[0].text.id == "b"


def many(number: int) -> list[IndexedText]:
    return [IndexedText(f"t{n}", f"sensor{n} reads {n} in the barn") for n in range(number)]


@pytest.fixture
def few_in_memory(monkeypatch) -> None:
    monkeypatch.setattr(searching, "MAX_IN_MEMORY", 10)


@pytest.mark.usefixtures("few_in_memory")
def test_many_texts_are_in_a_file_of_all_processes(tmp_path: Path) -> None:
    path = tmp_path / "words.sqlite"
    few, first, second = TextIndex(path), TextIndex(path), TextIndex(path)

    assert few.update(many(10)) == 0
    assert not path.exists()
    assert first.update(many(11)) == 0
    assert path.exists()
    assert second.update(many(12), limit_s=60) == 0
    assert first.search("sensor11", 5, NOW) == []
    assert [one.text.id for one in second.search("sensor11", 5, NOW)] == ["t11"]


@pytest.mark.usefixtures("few_in_memory")
@pytest.mark.parametrize("damage", [b"not a database " * 500, b""])
def test_a_damaged_file_costs_nothing_but_time(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "words.sqlite"
    first = TextIndex(path)
    first.update(many(30))
    path.write_bytes(damage)

    again = TextIndex(path)
    again.update(many(30))

    assert [one.text.id for one in again.search("sensor7", 5, NOW)] == ["t7"]


@pytest.mark.usefixtures("few_in_memory")
def test_removed_texts_are_in_the_file_no_more(tmp_path: Path) -> None:
    path = tmp_path / "words.sqlite"
    index = TextIndex(path)
    index.update([*many(20), IndexedText("secret", "the codename is zebrafish")])
    index.update(many(20))

    assert index.search("zebrafish", 5, NOW) == []
    assert b"zebrafish" not in path.read_bytes()


def test_texts_beyond_the_time_limit_are_found_later() -> None:
    index = TextIndex()
    left = index.update(many(500), limit_s=-1)

    assert left == 500
    assert index.search("sensor499", 5, NOW) == []
    assert index.update(many(500)) == 0
    assert [one.text.id for one in index.search("sensor499", 5, NOW)] == ["t499"]


FACTS = ["Invoices go to accounting", "The office is in Oslo", "Deploys are on Friday"]


@pytest.mark.parametrize(
    ("query", "answer", "k", "found", "requests"),
    [
        ("invoices accounting", "2,0", 1, [0], 0),  # words found everything
        ("who pays the bills", "2,0", 2, [2, 0], 1),
        ("who pays the bills", "None.", 2, [], 1),
        ("who pays the invoices", "the first one", 2, [0], 1),
        ("who pays the bills", "junk", 2, [], 1),
        ("who pays the bills", ValueError("down"), 2, [], 1),
        ("who pays the bills", "2,0", 3, [], 0),  # no more candidates than results
    ],
)
async def test_a_model_chooses_where_words_find_too_little(
    query, answer, k, found, requests
) -> None:
    model = Model([answer])
    texts = [IndexedText(str(n), text) for n, text in enumerate(FACTS)]
    index = index_of(texts)

    results = await search([index], query, k, NOW, model=MemoryModel(model))

    assert [result.text.text for result in results] == [FACTS[n] for n in found]
    assert len(model.requests) == requests


async def test_the_best_fact_comes_before_notes() -> None:
    facts = index_of([IndexedText("f", "The gateway listens on port 8080")])
    notes = index_of([IndexedText("n", "We moved the gateway port twice; gateway port trouble")])

    results = await search([facts, notes], "gateway port", 5, NOW)

    assert [result.text.id for result in results] == ["f", "n"]


def test_a_message_recalls_texts_with_a_specific_word() -> None:
    rows = [
        ("a", "Fixed the uploader", "2026-01-01"),
        ("b", "Fixed the uploader again", "2026-02-01"),
        ("c", "Fixed the tests of the parser", "2026-03-01"),
    ]
    index = index_of([IndexedText(id, text, at=at) for id, text, at in rows])

    def recalled(query: str, hidden: str = "") -> list[str]:
        return [
            one.text.id for one in recall_texts(index, query, NOW, lambda text: text.id == hidden)
        ]

    assert recalled("please fix the uploader") == ["b", "a"]
    assert recalled("please fix the uploader", hidden="b") == ["a"]
    assert recalled("please fix it") == []
    assert recalled("fix the uplader") == ["b", "a"]


STYLES = {
    "camel": lambda parts: parts[0] + "".join(map(str.capitalize, parts[1:])),
    "Pascal": lambda parts: "".join(map(str.capitalize, parts)),
    "snake": "_".join,
    "SCREAMING": lambda parts: "_".join(parts).upper(),
    "kebab": "-".join,
    "dotted": ".".join,
    "flat": "".join,
    "spaced": " ".join,
}
_parts = st.lists(st.from_regex(r"[a-z]{2,8}", fullmatch=True), min_size=2, max_size=4)
_styles = st.sampled_from(sorted(STYLES))


@given(_parts, _styles, _styles)
@settings(max_examples=share(300))
def test_a_name_is_found_however_it_is_joined(parts, written, asked) -> None:
    texts = [f"The setting is {STYLES[written](parts)} here", "Something else entirely"]
    assert 0 in order(STYLES[asked](parts), texts)


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=4))
@settings(max_examples=share(200))
def test_no_text_and_no_query_breaks_the_index(query: str, texts: list[str]) -> None:
    assert {one.text.text for one in ranked(query, texts)} <= {*texts}
