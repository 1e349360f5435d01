import unicodedata

from hypothesis import given, strategies as st

from kode import plain_text
from kode.plain_text import escape_path, sanitize
from kode.tools.edit import count_changes
from tests.tables import for_each

# The planes between these have letters of Chinese alone, or none.
HIDDEN = [
    letter
    for letter in map(chr, [*range(0x20000), *range(0xE0000, 0xE1000)])
    if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") and letter not in "\t\n"
]
SHOWN_FORMATS = {*"\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"}
SHOWN_FORMATS |= {"\U000110bd", "\U000110cd"}
"""Formats of Unicode that are signs of their own: of numbers, of abbreviations."""


@for_each(
    ("text", "shown"),
    [
        ("a\x1b[31mb\x1b]0;title\x07c\x1bPq\x1b\\d\x1bce", "abcde"),
        ("a\tb\r\nc\rd", "a\tb\nc\nd"),
        ("a\x07b\x9b2J\x1b", "a\\x07b\\x9b2J\\x1b"),
        ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
        ("a\u200bb\u200cc\u200dd\ufeffe", "a\\u200bb\\u200cc\\u200dd\\ufeffe"),
        ("a\U000e0041b\U000e007f", "a\\U000e0041b\\U000e007f"),
        ("\U0001f600\ufe0f\ufe01\U000e0101", "\U0001f600\ufe0f\\ufe01\\U000e0101"),
        ("\ud800", "\\ud800"),
    ],
)
def test_text_that_a_terminal_obeys_or_hides_is_spelled_out(text, shown):
    assert sanitize(text) == shown


@for_each(
    "text",
    [
        "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",  # a family
        "\U0001f3f3\ufe0f\u200d\U0001f308 \u2764\ufe0f\u200d\U0001f525 1\ufe0f\u20e3",
        "\U0001f9d1\U0001f3fd\u200d\U0001f680",  # with a skin tone
        "e\u0301 o\u0323\u0302",  # combining marks
        "\u4f60\u597d\u3000\u304b\u3099 \ud55c\uae00 \u845b\U000e0100",  # CJK
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0915\u094d\u200d\u0937",
        "\u05e9\u05dc\u05d5\u05dd \xa0 \ue0a0 \U0001fbff",
    ],
)
def test_text_that_shows_stays_as_it_is(text):
    assert sanitize(text) == text
    assert escape_path(text) == text


def test_every_control_of_unicode_is_spelled_out_between_letters():
    shown = {c for c in HIDDEN if sanitize(f"a{c}b") == f"a{c}b"}

    assert shown == SHOWN_FORMATS


@given(st.text(st.sampled_from([*HIDDEN, *"ab\u0645\U0001f468\ufe0f\n\t"])))
def test_clean_text_controls_nothing_and_can_be_encoded(text):
    cleaned = sanitize(text)

    assert not {*cleaned} & {*HIDDEN} - SHOWN_FORMATS - {"\u200c", "\u200d"}
    assert "\u200d\u200d" not in cleaned
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned


@given(st.text())
def test_a_path_is_printed_on_one_line(text):
    assert not {*escape_path(text)} & {*"\n\t\r\x1b\u2028\u202e"}


# ── differences of two texts ─────────────────────────────────────────────────────────────────

texts = st.lists(st.sampled_from(["a", "b", "c", "d", ""]), max_size=30).map("\n".join)


@given(before=texts, after=texts)
def test_a_diff_turns_the_old_text_into_the_new(before: str, after: str) -> None:
    text = plain_text.unified_diff("x", before + "\n", after + "\n")

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

    text = plain_text.unified_diff("f", "\n".join(lines), "\n".join(changed))

    assert count_changes(text) == "+1 -1"
    assert "@@ -6998,7 +6998,7 @@" in text
    assert "7001\tx" in plain_text.changed_lines(text).split("\n")


def test_a_missing_last_line_feed_is_marked() -> None:
    assert plain_text.unified_diff("f", "a", "b\n") == (
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
    )
