"""No line is wider than the terminal, and no word is broken that fits a line."""

import pytest
from hypothesis import given, strategies as st

from kode.cli.screen.diffs import paint_diff
from kode.cli.screen.lines import (
    cell_width,
    clip,
    clip_middle,
    count,
    duration,
    find_breaks,
    money,
    one_line,
    wrap_words,
)
from tests.cli.terminals import make_screen


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


WIDTHS = (40, 60, 80, 120)
DIFF = """\
--- a/x.py
+++ b/x.py
@@ -1,2 +1,2 @@
-    return year % 400 == 0  # centuries are not leap years, but every fourth one of them is a leap
+    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) and year > 1582  # Gregorian
     pass
"""


def whole_words(text: str, shown: str) -> set[str]:
    """The words of a text that stand in one piece on no line."""
    return set(text.replace("|", " ").split()) - {"---", "---:"} - set(shown.split())


@pytest.mark.parametrize("width", WIDTHS)
def test_a_diff_breaks_no_word(width):
    shown = paint_diff(make_screen(width), DIFF)

    body = DIFF.partition("@@\n")[2]
    assert whole_words(body.replace("\n-", "\n- ").replace("\n+", "\n+ "), f"{shown} - +") == set()
    assert max(map(cell_width, shown.split("\n"))) <= width


def test_a_path_that_fits_no_line_breaks_after_a_slash():
    path = "src/kode/providers/openai/responses_in.py"

    assert find_breaks(path, 40) == [path.index("responses_in")]
