import pytest
from hypothesis import given, strategies as st

from kode.plain_text import normalize_line_ends
from kode.tools import files
from kode.tools.edit import Edit, Misfit, restore_ends
from tests.tables import for_each

words = st.text(alphabet="ab \té\r日{}", max_size=6)
plain_words = st.text(alphabet="ab \té日{}", max_size=6)
ends = st.sampled_from(["\n", "\r\n"])


def _joined(lines: list[tuple[str, str]]) -> str:
    return "".join(line + end for line, end in lines)


def replace(text: str, edit: Edit) -> str:
    return restore_ends(text, edit.apply(normalize_line_ends(text)).text)


mixed = st.lists(st.tuples(words, ends), max_size=8).map(_joined)
plain_mixed = st.lists(st.tuples(plain_words, ends), max_size=8).map(_joined)


@given(before=mixed, old=words, after=mixed, new=words)
def test_bytes_outside_the_edited_range_never_change(
    before: str, old: str, after: str, new: str
) -> None:
    mark = "<<" + old + ">>"

    replaced = replace(before + mark + after, Edit(mark, "[[" + new + "]]"))

    assert replaced == before + "[[" + new.replace("\r\n", "\n") + "]]" + after


@given(before=mixed, old=plain_words, new=plain_words, lines=plain_mixed, after=mixed)
def test_an_equal_edit_and_its_inverse_restore_every_byte(
    before: str, old: str, new: str, lines: str, after: str
) -> None:
    plain = normalize_line_ends(lines)
    text = before + "<<" + old + "\n" + lines + ">>" + after
    found, marked = f"<<{old}\n{plain}>>", f"[[{new}\n{plain}]]"

    edited = replace(text, Edit(found, marked))
    restored = replace(edited, Edit(marked, found))

    assert edited == before + f"[[{new}\n{lines}]]" + after
    assert restored == text


@given(data=st.binary(max_size=60))
def test_decoding_and_encoding_give_the_same_bytes(data: bytes) -> None:
    try:
        text, encoding = files.decode_text(data)
    except files.Binary:
        return
    assert files.encode_text(text, encoding, "x") == data


TABBED = "func f() {\n\tif x {\n\t\treturn\n\t}\n}\n"
CALL = "\tif x {\n\t\tcall(\n\t\t\t\ty,\n\t\t)\n\t}"


@for_each(
    ("text", "old", "new", "after"),
    [
        # Lines of a mixed file keep their own ends.
        ("a\r\nb\nc\r\nd\n", "b\nc", "B\nC", "a\r\nB\nC\r\nd\n"),
        ("a\r\nb\nc\r\nd\n", "a\nb\nc\nd\n", "a\nb\nn\nc\nd\n", "a\r\nb\nn\nc\r\nd\n"),
        ("a\r\nb\nc\r\nd\n", "a", "a\nx", "a\r\nx\r\nb\nc\r\nd\n"),
        # A match without indentation is indented as the file is.
        (
            "def f():\n    if x:\n        return 1\n    # end\n",
            "if x:\n    return 1\n",
            "if x:\n    log()\nelse:\n    y()\n",
            "def f():\n    if x:\n        log()\n    else:\n        y()\n    # end\n",
        ),
        # One level of spaces is one tab of the file.
        *(
            (
                TABBED,
                "\tif x {\n\t\treturn\n\t}".replace("\t", " " * width),
                CALL.replace("\t", " " * width),
                f"func f() {{\n{CALL}\n}}\n",
            )
            for width in (2, 3, 4)
        ),
        # A line shallower than any moves like others.
        (
            "{\n    a\n        b\n",
            "\t\ta\n\t\t\tb",
            "\t\ta\n\t\t\tb\n\tc",
            "{\n    a\n        b\nc\n",
        ),
        # Trailing space of the file does not hide a line.
        ("one  \ntwo\t\nthree\n", "one\ntwo\n", "one\n2\n", "one  \n2\nthree\n"),
    ],
)
def test_new_lines_are_indented_and_end_as_the_files_do(
    text: str, old: str, new: str, after: str
) -> None:
    assert replace(text, Edit(old, new)) == after
    replaced = Edit(old, new).apply(normalize_line_ends(text))
    assert replaced.reindented == (old not in normalize_line_ends(text))


def test_overlapping_places_are_ambiguous() -> None:
    with pytest.raises(Misfit) as caught:
        Edit("aa", "b").apply("aaa")
    assert caught.value.lines == [1, 1]


def test_replace_all_replaces_every_place_and_counts_them() -> None:
    replaced = Edit("a", "aa", True).apply("a b a\na")

    assert (replaced.text, replaced.count) == ("aa b aa\naa", 3)


def test_blank_lines_alone_are_not_looked_for_loosely() -> None:
    with pytest.raises(Misfit) as caught:
        Edit("  \n  ", "x").apply("a\n\nb\n")
    assert not caught.value.lines
