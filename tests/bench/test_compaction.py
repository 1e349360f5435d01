"""What the benchmark of compactions measures, in one window."""

from bench.compaction import kept


def test_what_was_read_and_never_said_is_in_the_note_that_repeats_the_beginning():
    figures = kept(20_000, compactions=1)

    assert figures == {"facts": (1.0,), "words": (1.0,), "repeated": 1.0}
