"""Thoughts that a server leaves in the text of a reply are no part of the answer."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.events import Event, TextDelta, ThinkingDelta
from kode.messages import Text, Thinking
from kode.providers.draft import Draft

HARMONY = "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>"
CASES = {
    "Hello <think>x</think>": ("", "Hello <think>x</think>"),
    "\n Hello": ("", "\n Hello"),
    "<think>\nHm.\n</think>\n\nYes.": ("\nHm.\n", "Yes."),
    " <thinking>Hm.</thinking>Yes.": ("Hm.", "Yes."),
    "<think>Hm. </thin": ("Hm. </thin", ""),
    "<thin air": ("", "<thin air"),
    f"{HARMONY}<|start|>assistant<|channel|>final<|message|>Yes.": ("Hm.", "Yes."),
    f"{HARMONY}<|channel|>commentary": ("Hm.", "<|channel|>commentary"),
}


def split(pieces: Sequence[str], *, splits: bool = True) -> tuple[str, str]:
    """The thinking and the text of a reply that came in these pieces."""
    events: list[Event] = []
    draft = Draft("", events.append, splits_thoughts=splits)
    for piece in pieces:
        draft.add_text("text", piece)
    draft.stopped("stop")
    parts = draft.finish("m", ()).parts
    thought = "".join(part.text for part in parts if isinstance(part, Thinking))
    text = "".join(part.text for part in parts if isinstance(part, Text))
    assert "".join(e.text for e in events if isinstance(e, ThinkingDelta)) == thought
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == text
    return thought, text


@pytest.mark.parametrize("written", CASES)
@given(cuts=st.lists(st.integers(0, 70), max_size=6))
def test_written_thoughts_are_found_wherever_pieces_end(written: str, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(written)]
    pieces = [written[a:b] for a, b in itertools.pairwise(places)]

    assert split(pieces) == CASES[written]


def test_a_vendors_own_server_may_answer_with_such_tags() -> None:
    assert split(["<think>x</think>"], splits=False) == ("", "<think>x</think>")
