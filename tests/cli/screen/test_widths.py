"""No line is wider than the terminal, and no word is broken that fits a line."""

from io import StringIO

import pytest

from kode.cli.screen.diffs import painted_diff
from kode.cli.screen.lines import breaks, cell_width, explain, fold
from kode.cli.screen.markdown import TerminalMarkdown
from kode.cli.screen.screen import Screen

WIDTHS = (40, 60, 80, 120)
TABLE = """\
| File | What it does | Time |
|---|---|---:|
| kode/providers/responses_in.py | Reads the stream of events, internationalization too | 412 ms |
| tests/test_stream.py | Checks cancellation | 8 ms |
"""
DIFF = """\
--- a/x.py
+++ b/x.py
@@ -1,2 +1,2 @@
-    return year % 400 == 0  # centuries are not leap years, but every fourth one of them is a leap
+    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) and year > 1582  # Gregorian
     pass
"""


def screen(width: int) -> Screen:
    return Screen(StringIO(), False, False, columns=lambda: width, rows=lambda: 24)


def whole_words(text: str, shown: str) -> set[str]:
    """The words of a text that stand in one piece on no line."""
    return set(text.replace("|", " ").split()) - {"---", "---:"} - set(shown.split())


@pytest.mark.parametrize("width", WIDTHS)
def test_a_table_breaks_no_word(width):
    shown = screen(width).rendered(TerminalMarkdown(TABLE))

    assert whole_words(TABLE, shown.replace(":", "")) == set()
    assert max(map(cell_width, shown.split("\n"))) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_a_diff_breaks_no_word(width):
    shown = painted_diff(screen(width), DIFF)

    body = DIFF.partition("@@\n")[2]
    assert whole_words(body.replace("\n-", "\n- ").replace("\n+", "\n+ "), f"{shown} - +") == set()
    assert max(map(cell_width, shown.split("\n"))) <= width


def test_a_path_that_fits_no_line_breaks_after_a_slash():
    path = "src/kode/providers/openai/responses_in.py"

    assert breaks(path, 40) == [path.index("responses_in")]


def test_the_last_column_continues_below_itself():
    assert fold("demo  on  a tour of two minutes", 20).split("\n") == [
        "demo  on  a tour of",
        "          two",
        "          minutes",
    ]


def test_an_item_continues_below_its_text():
    assert fold("  [x] write the test", 18) == "  [x] write the\n      test"


def test_a_meaning_without_a_name_belongs_to_the_one_before():
    shown = explain([("instructions", "x" * 30), ("", "more of them")], 40)

    assert shown.split("\n")[1:] == [f"      {'x' * 30}", "      more of them"]
