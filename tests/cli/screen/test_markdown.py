import io
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.cli.screen.lines import cell_width
from kode.cli.screen.markdown import (
    MAX_BLOCK_CHARS,
    MAX_FENCE_LINES,
    MAX_LINE_CHARS,
    BlockSplitter,
    markdown,
)
from kode.cli.screen.screen import Screen, links_work
from kode.plain_text import clean
from tests.tables import for_each


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
def test_cutting_a_text_into_deltas_changes_no_block(pieces, data):
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


def test_a_list_with_code_and_blank_lines_is_one():
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


@for_each("before", ["", "- item ", "> ", "```py\n", "- one\n  ```\n"])
@for_each("unit", ["word ", "x", "short line\n", "*a_ [", "- more\n"])
def test_endless_text_settles_in_joined_parts_of_limited_size(before, unit):
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


def colored(width=60):
    return Screen(
        stream=io.StringIO(),
        rich_terminal=True,
        color=True,
        columns=lambda: width,
        rows=lambda: 24,
    )


SGR = r"(?:\x1b\[[0-9;]*m)?"
LINK = re.compile(rf"\x1b\]8;[^;]*;([^\x1b]*)\x1b\\{SGR}([^\x1b]*){SGR}\x1b\]8;;\x1b\\")


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\", "", text)


@for_each(
    ("text", "shown"),
    [
        ("[**the** docs](http://x.test/a)", "the docs (http://x.test/a)"),
        ("<http://x.test/a>", "http://x.test/a"),
        ("<a@x.test>", "a@x.test"),
        ("see http://x.test/a?b=c.", "see http://x.test/a?b=c."),
        ("[http://safe.test](http://evil.test)", "http://safe.test (http://evil.test)"),
        ("![a cat](http://x.test/cat.png)", "a cat (http://x.test/cat.png)"),
        ("`http://x.test`", "http://x.test"),
    ],
)
@for_each("links", [False, True])
def test_an_address_is_visible_once_whether_links_work_or_not(text, shown, links):
    assert plain(colored().rendered(markdown(text, links=links))) == shown


def test_a_wrapped_link_leads_to_its_whole_address():
    address = "http://x.test/" + "a" * 60
    rendered = colored(40).rendered(markdown(f"[docs]({address}) and {address}", links=True))

    targets = [target for target, _ in LINK.findall(rendered)]

    assert len(targets) >= 5
    assert set(targets) == {address}
    said = "".join(said for _, said in LINK.findall(rendered))
    assert said == "docs" + address + address


def test_no_link_sequence_is_written_where_links_do_not_work():
    assert "\x1b]8" not in colored().rendered(markdown("[docs](http://x.test) http://y.test"))


def test_a_link_cannot_break_out_of_its_sequence():
    text = "[x](http://x.test/\x1b\\\x07;a) <http://y.test/\x1b]0;t\x07>"
    rendered = colored().rendered(markdown(clean(text), links=True))

    assert "\x07" not in rendered
    assert "\x1b" not in plain(rendered)


TABLE = (
    "| name | 説明 | note |\n|---|---:|---|\n| a | 漢字とかな | 👍🏽 emoji |\n"
    "| longer name | b | somelongtextwithoutanybreakatall and more |"
)


@pytest.mark.parametrize("width", [20, 30, 40, 80])
def test_a_table_fits_and_loses_nothing(width):
    rendered = screen(width).rendered(markdown(TABLE))

    assert "…" not in rendered
    for line in rendered.split("\n"):
        assert cell_width(line) <= width
    letters = re.sub(r"[\s─:]", "", rendered)
    for cell in ("emoji", "somelong"):
        assert cell in letters


def test_a_table_too_wide_becomes_lists_of_cells():
    assert screen(24).rendered(markdown(TABLE)).split("\n") == [
        "name: a",
        "説明: 漢字とかな",
        "note: 👍🏽 emoji",
        "",
        "name: longer name",
        "説明: b",
        "note:",
        "somelongtextwithoutanybr",
        "eakatall and more",
    ]


def test_no_line_of_a_table_ends_in_padding():
    for line in colored(80).rendered(markdown(TABLE)).split("\n"):
        assert plain(line) == plain(line).rstrip()


def test_nested_lists_keep_their_levels():
    shown = screen(30).rendered(
        markdown("1. one\n   - two words that wrap here\n     - deep\n2. x")
    )

    assert shown.split("\n") == [
        "1. one",
        "    • two words that wrap here",
        "       • deep",
        "2. x",
    ]


@for_each(
    ("environ", "work"),
    [
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-256color", "VTE_VERSION": "6800"}, True),
        ({"TERM": "xterm-256color", "VTE_VERSION": "4600"}, False),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "linux"}, False),
        ({"TERM": "screen"}, False),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/x"}, True),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, True),
    ],
)
def test_links_are_made_only_where_they_are_known_to_work(environ, work):
    assert links_work(environ) is work


def test_chinese_letters_fill_the_line_they_begin_in():
    shown = screen(30).rendered(
        markdown("안녕하세요 여러분 中文文本没有空格所以应该填满整行，而不是从新的一行开始。")
    )

    first, *rest = shown.split("\n")
    assert cell_width(first) >= 29
    assert all(cell_width(line) <= 30 for line in rest)
    assert not any(line.startswith(("，", "。")) for line in rest)


@pytest.mark.parametrize(
    ("item", "sign"), [("- [x] a", "☑"), ("* [ ] a", "☐"), ("- a", "•"), ("1. [x] a", "1.")]
)
def test_items_of_tasks_have_a_box_for_a_bullet(item, sign):
    shown = screen().rendered(markdown(item))

    assert shown.split()[0] == sign
    assert ("[" in shown) is (sign == "1.")


def test_code_is_in_colours_that_light_screens_show_too():
    shown = Screen(
        stream=io.StringIO(), rich_terminal=True, color=True, columns=lambda: 60, rows=lambda: 24
    ).rendered(markdown("```python\nclass A:\n    def f(self) -> int: return print('x')  # y\n```"))

    used = {code for found in re.findall(r"\x1b\[([0-9;]*)m", shown) for code in found.split(";")}
    assert used & {"94", "36", "35"}
    assert not used & {"92", "93", "96", "97", "33", "37"}
