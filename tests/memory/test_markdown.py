"""Files of a person are split without loss, and what is written is read back as the same."""

import pytest
from hypothesis import given, settings, strategies as st

from kode.memory.rendering import (
    FACTS,
    LINES,
    SECTIONS,
    WHOLE,
    FileFormat,
    statement_key,
    strip_bullet,
)
from tests.effort import share

_BITS = (
    *("- a", "* b", "  - c", "\t- d", "1. e", "f g", "Key: v"),
    *("# H", "## S", "##", "    # i", "§"),
)
_MORE = (
    *("```", "  ```", "```py", "~~~", "> q", "---", "===", "| x |"),
    *("", " ", "\u00a0# j", "-", "- "),
)
_LINES = st.lists(st.sampled_from((*_BITS, *_MORE)), max_size=12)
_FILES = st.tuples(_LINES, st.sampled_from(("\n", "\r\n", "\r")), st.booleans()).map(
    lambda parts: parts[1].join(parts[0]) + (parts[1] if parts[2] else "")
)
_FORMATS = st.sampled_from((FACTS, LINES, SECTIONS, WHOLE))


@given(_FORMATS, _FILES)
@settings(max_examples=share(1500), deadline=None)
def test_pieces_joined_are_the_file(layout: FileFormat, text: str) -> None:
    assert "".join(piece.raw for piece in layout.split(text)) == text


@given(st.sampled_from((FACTS, LINES, SECTIONS)), _FILES, _FILES)
@settings(max_examples=share(3000), deadline=None)
def test_a_statement_is_read_back_where_it_is_appended(
    layout: FileFormat, text: str, other: str
) -> None:
    """Statements that a person wrote anywhere can be written into any file, below what it has."""
    before = layout.texts(text)
    for new in layout.texts(other):
        text = text if new in before else layout.append(text, new)
        before = list(dict.fromkeys((*before, new)))
        assert sorted(layout.texts(text)) == sorted(before)


@given(_FORMATS, _FILES)
@settings(max_examples=share(1500), deadline=None)
def test_a_fitted_text_is_one_statement(layout: FileFormat, text: str) -> None:
    fitted = layout.fit_text(text)
    assert layout.texts(layout.append("", fitted) if fitted else "") == ([fitted] if fitted else [])


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("# T\n\n- a\n  more\n- b\n\npara\nlast\n", ["- a\n  more", "- b", "para\nlast"]),
        ("Name: Zhang\r\nEditor: vim\r\n", ["Name: Zhang", "Editor: vim"]),
        ("- a\n```\n- code\n\n# no\n```\n- b", ["- a\n```\n- code\n\n# no\n```", "- b"]),
        ("- a\n```\nopen", ["- a\n```\nopen\n```"]),
        ("- a\n  - nested\n> quote\n- a\n", ["- a\n  - nested", "- a"]),
    ],
)
def test_a_list_has_a_statement_for_each_item_and_paragraph(
    text: str, statements: list[str]
) -> None:
    assert LINES.texts(text) == statements


def test_sections_and_entries_are_statements() -> None:
    assert SECTIONS.texts("# T\n\n## A\nx\n```\n## no\n```\n\n## B\n") == [
        "## A\nx\n```\n## no\n```",
        "## B",
    ]
    assert FACTS.texts("\ufeffa\r\n§\r\n\r\n§\r\nb\nc\n") == ["a", "b\nc"]
    assert WHOLE.texts("---\nid: x\n---\nNarrative\n\n## Facts\n") == ["Narrative\n\n## Facts"]


def test_a_bullet_is_not_shown_and_a_key_is_found() -> None:
    assert (strip_bullet("- a b"), strip_bullet("12. c"), strip_bullet("-1 is low")) == (
        "a b",
        "c",
        "-1 is low",
    )
    assert (statement_key("- Name: Zhang"), statement_key("See https://x.de")) == ("name", "")
