"""What the benchmark of compactions measures, in one window."""

from bench.compaction import measure_window


def test_the_repeated_note_keeps_facts_only_read():
    figures = measure_window(20_000, compactions=1)

    assert figures == {"facts": (1.0,), "words": (1.0,), "repeated": 1.0}
