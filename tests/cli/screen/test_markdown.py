import itertools
import re
import textwrap
from pathlib import Path

from hypothesis import given, strategies as st

from kode.cli.screen import markdown
from kode.cli.screen.lines import cell_width
from kode.cli.screen.markdown import BlockSplitter, TerminalMarkdown
from tests.cli.terminals import make_screen
from tests.tables import for_each

DATA = Path(__file__).parents[1] / "data"
LIMIT = 500
"""Characters of a block, and of a line, where a test makes them few."""


def screen(width=60):
    return make_screen(width)


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


def test_a_list_with_code_and_blank_lines_is_one():
    text = "1. one\n\n2. two\n\n   ```sh\n   ls\n\n   ```\n3. three\n\nThe end."

    assert blocks_of(text) == [text.removesuffix("\n\nThe end."), "The end."]


@for_each("before", ["", "- item ", "> ", "```py\n", "- one\n  ```\n"])
@for_each("unit", ["word ", "x", "short line\n", "*a_ [", "- more\n"])
def test_endless_text_settles_in_joined_parts_of_limited_size(monkeypatch, before, unit):
    for name in ("MAX_BLOCK_CHARS", "MAX_LINE_CHARS"):
        monkeypatch.setattr(markdown, name, LIMIT)
    text = before + unit * (3 * LIMIT // len(unit))
    splitter = BlockSplitter()
    whole = splitter.feed(text) + splitter.finish()
    pieces = [text[at : at + 77] for at in range(0, len(text), 77)]
    cut = [block for piece in pieces for block in splitter.feed(piece)] + splitter.finish()

    assert cut == whole
    assert max(len(block.text) for block in whole) <= 2 * LIMIT + 10
    assert [block.joined for block in whole[1:]] == [True] * (len(whole) - 1)
    said = "".join(block.text for block in whole).replace("```py", "").replace("```", "")
    assert "".join(said.split()) == "".join(text.replace("```py", "").replace("```", "").split())


def test_dropping_forgets_the_unfinished_only():
    splitter = BlockSplitter()
    splitter.feed("kept\n\n```\nlost")

    splitter.drop()

    assert splitter.finish() == []
    assert [block.text for block in splitter.feed("new\n\n")] == ["new"]


def test_code_keeps_its_own_indentation_without_padding():
    shown = screen().render_rich(TerminalMarkdown("```py\ndef f():\n    return 1\n```"))

    assert shown == "  def f():\n      return 1"


def colored():
    return make_screen(60, color=True)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


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
        ("*see* a/__init__.py:1", "see a/__init__.py:1"),
    ],
)
def test_an_address_or_a_path_is_visible_once(text, shown):
    assert plain(colored().render_rich(TerminalMarkdown(text))) == f"  {shown}"


TABLE = (
    "| name | 説明 | note |\n|---|---:|---|\n| a | 漢字とかな | 👍🏽 emoji |\n"
    "| longer name | b | somelongtextwithoutanybreakatall and more |"
)


def test_a_table_too_wide_becomes_lists_of_cells():
    shown = screen(27).render_rich(TerminalMarkdown(TABLE))

    assert textwrap.dedent(shown).split("\n") == [
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


def test_chinese_letters_fill_the_line_they_begin_in():
    text = "안녕하세요 여러분 中文文本没有空格所以应该填满整行，而不是从新的一行开始。"
    shown = screen(30).render_rich(TerminalMarkdown(text))

    first, *rest = shown.split("\n")
    assert cell_width(first) >= 28
    assert all(cell_width(line) <= 30 for line in rest)
    assert not any(line.startswith(("，", "。")) for line in rest)


def test_a_growing_reply_shows_no_mark_that_goes_again():
    splitter, shown = BlockSplitter(), []
    answer = (DATA / "answer.md").read_text()
    for character in re.sub("```.*?```", "", answer, flags=re.DOTALL):
        splitter.feed(character)
        shown.append(screen(60).render_rich(TerminalMarkdown(splitter.preview())))

    assert [text for text in shown if re.search(r"\*\*|[`#\[\]|]|~~|(?<! )\*(?! )", text)] == []


def test_a_growing_code_block_shows_its_end():
    splitter = BlockSplitter()
    splitter.feed("```py\n" + "".join(f"x = {number}\n" for number in range(100)) + "y = `")

    shown = screen(60).render_rich(TerminalMarkdown(splitter.preview())).split("\n")

    assert shown[-2:] == ["  x = 99", "  y = `"]
    assert len(shown) == 30
