import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.cli.markdown import (
    MAX_BLOCK_CHARS,
    MAX_FENCE_LINES,
    MAX_LINE_CHARS,
    BlockSplitter,
    markdown,
)
from kode.cli.screen import Screen


def screen(width=60):
    return Screen(
        stream=io.StringIO(),
        rich_terminal=False,
        color=False,
        columns=lambda: width,
        rows=lambda: 24,
    )


def blocks_of(*deltas):
    splitter = BlockSplitter()
    blocks = [block for delta in deltas for block in splitter.feed(delta)]
    return [block.text for block in blocks + splitter.finish()]


PIECES = st.sampled_from(
    ["word", " ", "\n", "\n\n", "- item", "1. one", "```", "```py\n", "# Head", "| a | b |", "    "]
)


@given(st.lists(PIECES, max_size=30), st.data())
def test_the_way_a_text_is_cut_into_deltas_does_not_show(pieces, data):
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    edges = [0, *cuts, len(text)]
    deltas = [text[a:b] for a, b in itertools.pairwise(edges)]

    assert blocks_of(*deltas) == blocks_of(text)


@given(st.lists(PIECES, max_size=30))
def test_no_word_is_lost(pieces):
    text = "".join(pieces)

    assert "".join("\n".join(blocks_of(text)).split()) == "".join(text.split())


def test_a_paragraph_settles_at_its_blank_line():
    splitter = BlockSplitter()

    assert splitter.feed("one\ntwo") == []
    assert splitter.tail(5) == "one\ntwo"
    assert [block.text for block in splitter.feed("\n\nthree")] == ["one\ntwo"]
    assert splitter.tail(5) == "three"


def test_a_code_fence_settles_at_its_end_blank_lines_included():
    splitter = BlockSplitter()

    assert splitter.feed("```py\na = 1\n\nb = 2\n") == []
    assert [block.text for block in splitter.feed("```\n")] == ["```py\na = 1\n\nb = 2\n```"]


def test_a_list_with_blank_lines_and_code_in_it_is_one_block():
    text = "1. one\n\n2. two\n\n   ```sh\n   ls\n\n   ```\n3. three\n\nThe end."

    assert blocks_of(text) == [text.removesuffix("\n\nThe end."), "The end."]


def test_a_heading_ends_what_is_before_it():
    assert blocks_of("text\n## Head\nmore") == ["text", "## Head", "more"]


def test_a_fence_inside_a_longer_fence_is_its_content():
    assert blocks_of("````\n```\nx\n```\n````\nend") == ["````\n```\nx\n```\n````", "end"]


def test_a_fence_that_is_never_closed_settles_at_the_end():
    assert blocks_of("```\ncode\n") == ["```\ncode"]


def test_a_very_long_fence_settles_in_joined_parts():
    splitter = BlockSplitter()
    text = "```py\n" + "x = 1\n" * (MAX_FENCE_LINES + 50) + "```\n"

    blocks = splitter.feed(text)

    assert [block.joined for block in blocks] == [False, True]
    assert sum(block.text.count("x = 1") for block in blocks) == MAX_FENCE_LINES + 50


@pytest.mark.parametrize("before", ["", "- item ", "> ", "```py\n", "- one\n  ```\n"])
@pytest.mark.parametrize("unit", ["word ", "x", "short line\n", "*a_ [", "- more\n"])
def test_text_without_an_end_settles_in_joined_parts_of_limited_size(before, unit):
    text = before + unit * (3 * MAX_BLOCK_CHARS // len(unit))
    splitter = BlockSplitter()
    whole = splitter.feed(text) + splitter.finish()
    pieces = [text[at : at + 777] for at in range(0, len(text), 777)]
    cut = [block for piece in pieces for block in splitter.feed(piece)] + splitter.finish()

    assert cut == whole
    assert max(len(block.text) for block in whole) <= MAX_BLOCK_CHARS + MAX_LINE_CHARS + 10
    assert [block.joined for block in whole[1:]] == [True] * (len(whole) - 1)
    said = "".join(block.text for block in whole).replace("```py", "").replace("```", "")
    assert "".join(said.split()) == "".join(text.replace("```py", "").replace("```", "").split())


def test_dropping_forgets_the_unfinished_only():
    splitter = BlockSplitter()
    splitter.feed("kept\n\n```\nlost")

    splitter.drop()

    assert splitter.finish() == []
    assert [block.text for block in splitter.feed("new\n\n")] == ["new"]


@pytest.mark.parametrize("width", [20, 80])
def test_rendered_blocks_fit_the_width(width):
    text = "A *paragraph* with `code` and a [link](https://example.org/a/path). " * 4
    table = "| name | what it is |\n|---|---|\n| kode | a coding agent with a memory |"

    for block in (text, table, "- " + text, "# " + text):
        lines = screen(width).rendered(markdown(block)).split("\n")
        assert all(len(line) <= width for line in lines)


def test_html_is_shown_as_the_text_it_is():
    assert screen().rendered(markdown("Use <div> and <br/>.")) == "Use <div> and <br/>."


def test_a_link_shows_where_it_goes():
    shown = screen().rendered(markdown("[docs](http://example.org)"))

    assert "docs" in shown
    assert "http://example.org" in shown


def test_code_keeps_its_own_indentation_without_padding():
    shown = screen().rendered(markdown("```py\ndef f():\n    return 1\n```"))

    assert shown == "def f():\n    return 1"
