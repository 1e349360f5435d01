"""From a query to an order: by words in whatever spelling, by time, beside neighbours."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kode.memory import terms
from kode.memory.rank import Ranked, Text, rank
from tests.effort import share
from tests.tables import for_each

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


def test_the_text_with_the_words_comes_first_in_any_form() -> None:
    assert order("who is the owner of invoicing?")[0] == 1
    assert order("running a test")[0] == 2


@pytest.mark.parametrize("query", ["kubernetes namespace", "", "!!! ???", "cake", "5433"])
def test_a_query_that_matches_nothing_returns_nothing(query: str) -> None:
    assert order(query, [*TEXTS, "The port is 5432", "make lint"]) == []


def test_question_words_match_nothing() -> None:
    assert order("what is it that you did with the") == []


@pytest.mark.parametrize("query", ["type", "Kind", "on off", "OnOff", "onoff"])
def test_a_query_of_common_words_finds_them_as_they_stand(query: str) -> None:
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


def test_a_pasted_text_is_not_searched_for_typos() -> None:
    pasted = "the pytset of " + " ".join(f"unknown{n}" for n in range(20))
    assert order(pasted) == []


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_with_more_of_the_query_nearby_ranks_higher() -> None:
    turns = ["a boat", "sea", "sea", "a boat", "a red one", "sea"]
    texts = [Text("", turn, row="a talk") for turn in turns]

    assert [found.index for found in rank("red boat", texts, NOW)] == [4, 3, 0]


def test_a_neighbour_unrelated_to_the_query_is_not_found() -> None:
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


@for_each(
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


def test_a_period_ends_before_the_first_moment_of_the_next() -> None:
    moments = ["02T23:59:59Z", "03T00:00:00Z", "03T23:59:59Z", "04T00:00:00Z"]
    texts = [Text(at, "worked on the parser", f"2026-03-{at}") for at in moments]

    found = rank("what did we do yesterday?", texts, NOW)

    assert {texts[one.index].where for one in found} == {"03T00:00:00Z", "03T23:59:59Z"}


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


def test_the_newer_of_equal_texts_comes_first() -> None:
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
@settings(max_examples=share(300))
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
@settings(max_examples=share(80))
def test_the_order_of_adding_does_not_change_a_score(texts: list[str], query: str, rng) -> None:
    shuffled = list(range(len(texts)))
    rng.shuffle(shuffled)
    scores = {found.index: found.score for found in ranked(query, texts)}
    again = {
        shuffled[found.index]: found.score for found in ranked(query, [texts[i] for i in shuffled])
    }
    assert scores.keys() == again.keys()
    assert all(abs(scores[i] - again[i]) < 1e-9 for i in scores)
