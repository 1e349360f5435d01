import pytest
from hypothesis import given, strategies as st

from kode.cli.screen.diffs import paint_diff
from kode.cli.screen.lines import cell_width
from tests.cli.terminals import make_screen

DIFF = """--- a/calc.py
+++ b/calc.py
@@ -8,3 +8,3 @@
 def add(a, b):
-    return a - b
+    return a + b
 # end
@@ -40 +40,2 @@
-old
+something
+else
"""


def screen(*, width=80, color=False):
    return make_screen(width, color=color)


def test_changed_lines_have_the_colours_of_their_syntax():
    text = paint_diff(screen(color=True), DIFF, 40)

    assert "\x1b[94mdef\x1b[0m \x1b[1madd\x1b[0m(a, b):" in text
    assert "\x1b[94mreturn\x1b[0m a \x1b[7m-\x1b[0m b" in text
    assert "a \x1b[7m+\x1b[0m b" in paint_diff(make_screen(rich_terminal=True, theme="dark"), DIFF)
    assert "\x1b[2m# end\x1b[0m" in text
    assert "\x1b[1;31m-\x1b[0m old" in text


def test_an_unlimited_diff_leaves_nothing_out():
    diff = "@@ -0,0 +1,50 @@\n" + f"+{'x' * 900}\n" * 50

    assert paint_diff(screen(), diff).count("x") == 900 * 50


def test_signs_count_within_a_hunk_and_blank_lines_end_context():
    diff = "--- a/q.sql\n+++ b/q.sql\n@@ -1,4 +1,3 @@\n--- a comment\n select\n \n other\n"
    painted = paint_diff(screen(color=True), diff)

    assert "other" not in painted
    assert "\x1b[1;31m-\x1b[0m \x1b[2m-- a comment\x1b[0m" in painted
    assert "  1 - -- a comment" in paint_diff(screen(), diff, 40)


def test_a_very_long_line_takes_few_rows():
    diff = "@@ -0,0 +1 @@\n+" + "x" * 5000 + "\n"

    rows = paint_diff(screen(), diff, 40).split("\n")

    assert len(rows) == 4
    assert "the line continues" in rows[-1]


@pytest.mark.parametrize("width", [20, 80])
def test_wide_characters_fit_the_width(width):
    diff = "@@ -1 +1 @@\n-" + "漢字" * 60 + "\n+" + "👍🏽 ok " * 30 + "\n"

    for row in paint_diff(screen(width=width), diff, 40).split("\n"):
        assert cell_width(row) <= width


@given(st.text())
def test_any_text_is_shown_without_a_fault(text):
    paint_diff(screen(color=True), "@@ -1,3 +1,3 @@\n" + text)
    paint_diff(screen(color=True, width=20), "@@ -1,3 +1,3 @@\n" + text, 10)
