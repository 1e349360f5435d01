import itertools
import json
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.errors import RefusedError
from kode.events import silent
from kode.providers.draft import LONGEST, WINDOW, Draft, Repetition, find_repetition


@given(st.text(min_size=1, max_size=LONGEST), st.integers(0, LONGEST))
def test_any_text_over_and_over_is_found_wherever_it_begins(unit: str, skipped: int) -> None:
    text = (unit * (WINDOW // len(unit) + 2))[skipped % len(unit) :][:WINDOW]

    found = find_repetition(text)

    assert found
    assert len(found) <= len(unit)
    assert (found * (WINDOW // len(found) + 2))[-WINDOW:] == text


@given(st.text(min_size=1, max_size=LONGEST), st.integers(0, WINDOW - LONGEST - 1))
def test_one_other_character_anywhere_before_is_no_repetition(unit: str, at: int) -> None:
    text = (unit * (WINDOW // len(unit) + 1))[:WINDOW]
    other = "x" if text[at] != "x" else "y"

    assert not find_repetition(text[:at] + other + text[at + 1 :])


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"    ({n}, {n * n}),\n" for n in range(2_000)),
        "=" * 500 + "\n" + "".join(f"row {n} " + "-" * 60 + "\n" for n in range(500)),
        json.dumps([{"id": n, "name": "same", "tags": []} for n in range(1_000)]),
        ("A paragraph. " * 100 + "\n") * 5,
    ],
    ids=["a table", "rules", "records", "five long paragraphs"],
)
def test_ordinary_long_texts_are_none(text: str) -> None:
    watch = Repetition()

    for at in range(0, len(text), 7):
        watch.add(text[at : at + 7])


def add_call(draft: Draft, piece: str) -> None:
    draft.add_arguments(draft.part("call", "key"), piece)


@pytest.mark.parametrize(
    "add",
    [
        lambda draft, piece: draft.add_text("key", piece),
        lambda draft, piece: draft.add_thinking("key", piece),
        add_call,
    ],
    ids=["text", "thinking", "arguments"],
)
def test_a_stream_that_repeats_itself_is_ended(add: Callable[[Draft, str], None]) -> None:
    draft = Draft("", silent)
    pieces = itertools.repeat("I will look again.\n", 2_000)

    with pytest.raises(RefusedError, match=r"repeated itself \(the same 19 characters"):
        list(map(partial(add, draft), pieces))
