from hypothesis import given
from hypothesis import strategies as st

from kode.cli.screen.lines import (
    bars,
    cell_width,
    clip,
    clip_middle,
    count,
    duration,
    explain,
    fold,
    money,
    one_line,
    wrap_words,
)


def test_meanings_move_below_their_names_where_it_is_narrow():
    pairs = [("/a", "one two three four five six seven"), ("/longer", "short")]

    assert explain(pairs, 44).split("\n") == [
        "  /a       one two three four five six seven",
        "  /longer  short",
    ]
    assert explain(pairs, 41).split("\n") == [
        "  /a       one two three four five six",
        "           seven",
        "  /longer  short",
    ]
    assert explain(pairs, 30).split("\n") == [
        "  /a",
        "      one two three four five",
        "      six seven",
        "  /longer",
        "      short",
    ]


@given(st.text(), st.integers(0, 40))
def test_clipped_text_fits(text, width):
    assert cell_width(clip(one_line(text), width)) <= width
    assert cell_width(clip_middle(one_line(text), width)) <= width


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])), st.integers(2, 30))
def test_wrapping_loses_no_letter_and_fits(text, width):
    lines = wrap_words(text, width)

    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(cell_width(line) <= width for line in lines)


def test_numbers_are_short():
    assert [duration(s) for s in (0.04, 12.2, 185, 3720)] == ["0.0s", "12s", "3m 05s", "1h 02m"]
    assert [count(n) for n in (950, 12_345, 200_000, 1_200_000)] == ["950", "12.3k", "200k", "1.2M"]
    assert [money(m) for m in (None, 0.0, 0.0123, 0.5, 12.5)] == [
        "",
        "$0.00",
        "$0.0123",
        "$0.50",
        "$12.50",
    ]


def test_bars_show_each_kind_with_its_share_and_fit():
    lines = bars([("tools", 50_000), ("free", 150_000)], 200_000, 60)

    assert "50k 25.0%" in lines[0]
    assert 0 < lines[0].count("█") < lines[1].count("█")
    assert all(cell_width(line) <= 20 for line in bars([("a long name", 5)], 10, 20))


def test_folded_lines_break_between_words_and_keep_their_indent() -> None:
    assert fold("  one two three four", 10) == "  one two\n  three\n  four"
