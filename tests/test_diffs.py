import difflib

from hypothesis import given
from hypothesis import strategies as st

from kode import plain_text as diffs

texts = st.lists(st.sampled_from(["a", "b", "c", "d", ""]), max_size=30).map("\n".join)


@given(before=texts, after=texts)
def test_a_diff_turns_the_old_text_into_the_new(before: str, after: str) -> None:
    text = diffs.unified_diff("x", before + "\n", after + "\n")

    assert _applied(before + "\n", text) == after + "\n"


def _applied(before: str, diff: str) -> str:
    """What `patch` would make of it."""
    old, made, at = before.splitlines(keepends=True), [], 0
    for line in diff.splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            begin, _, count = line.split()[1][1:].partition(",")
            start = int(begin) - (count != "0")
            made += old[at:start]
            at = start
        elif line[0] == "+":
            made.append(line[1:])
        else:
            assert old[at] == line[1:]
            made += [line[1:]] if line[0] == " " else []
            at += 1
    return "".join(made + old[at:])


def test_a_small_change_among_equal_lines_stays_small() -> None:
    lines = ["}", "else", "{"] * 5_000
    changed = [*lines[:7_000], "x", *lines[7_001:]]

    text = diffs.unified_diff("f", "\n".join(lines), "\n".join(changed))

    assert diffs.count_changes(text) == "+1 -1"
    assert "@@ -6998,7 +6998,7 @@" in text
    assert "7001\tx" in diffs.changed_lines(text).split("\n")


def test_a_missing_last_line_feed_is_marked() -> None:
    assert diffs.unified_diff("f", "a", "b\n") == (
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
    )


def test_it_is_what_difflib_says_of_short_texts() -> None:
    before, after = "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n"

    expected = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), "a/f", "b/f"
    )

    assert diffs.unified_diff("f", before, after) == "".join(expected)


def test_line_ends_alone_make_no_diff() -> None:
    assert diffs.unified_diff("f", "a\r\nb\r\n", "a\nb\n") == ""
