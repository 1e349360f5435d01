import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.errors import MemoryRefused
from kode.memory.exchange import read, text_of_rows

values = (
    st.none()
    | st.booleans()
    | st.integers(-1000, 1000)
    | st.text(st.characters(exclude_categories=("Cs",)))
    | st.lists(st.text(st.characters(exclude_categories=("Cs",))), max_size=3)
)
names = st.sampled_from(["id", "kind", "tags", "evidence", "created_at", "turn"])
contents = st.lists(
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r"), max_size=8)
    | st.sampled_from(["\n---\n", "---", "\n\\---\n", "\n\\\\--- \n", "\n"])
).map(lambda parts: "".join(parts).strip())
rows = st.lists(
    st.builds(
        lambda fields, content: {**fields, "content": content},
        st.dictionaries(names, values, max_size=4),
        contents,
    ),
    min_size=1,
    max_size=4,
)


@given(rows=rows)
def test_rows_come_back_as_they_were_written(rows):
    assert [dict(found.row) for found in read(text_of_rows(rows))] == rows


def test_an_editor_that_writes_crlf_and_a_mark_changes_nothing():
    rows = [{"kind": "log", "content": "one\ntwo"}, {"kind": "log", "content": "three"}]
    edited = "\ufeff" + text_of_rows(rows).replace("\n", "\r\n")

    assert [dict(found.row) for found in read(edited)] == rows


def test_no_rows_are_an_empty_text_and_back():
    assert text_of_rows([]) == ""
    assert read("") == read(" \n\n") == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('{"content": "a"}\n{"content": 1}\n\n{oops\n[1]\n', ["line 2", "line 4", "line 5"]),
        ("just a sentence\n", ["line 1"]),
    ],
)
def test_every_line_that_cannot_be_read_is_named(text, lines):
    with pytest.raises(MemoryRefused, match="Nothing was imported") as error:
        read(text)

    assert [line for line in lines if line not in str(error.value)] == []
    assert re.findall(r"line \d+(?=:)", str(error.value)) == lines


def test_at_most_ten_bad_lines_are_named():
    text = "\n".join(json.dumps({"content": n}) for n in range(30))

    with pytest.raises(MemoryRefused, match="and 20 more"):
        read(text)
