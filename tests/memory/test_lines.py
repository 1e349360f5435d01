"""Taking a change of a text back, beside what was changed since."""

from hypothesis import given
from hypothesis import strategies as st

from kode.memory.lines import revert_lines

COUNT = 8
PLACES = st.dictionaries(
    st.integers(min_value=0, max_value=COUNT - 1),
    st.sampled_from(["replace", "remove", "insert"]),
    min_size=1,
)


def written(*layers):
    """A text of lines that are all different, with each of the changes made to it."""
    lines = []
    for number in range(COUNT):
        what = [(name, layer[number]) for name, layer in layers if number in layer]
        kinds = {kind for _, kind in what}
        lines += [f"{name} before {number}" for name, kind in what if kind == "insert"]
        if "replace" in kinds:
            lines += [f"{name} for {number}" for name, kind in what if kind == "replace"]
        elif "remove" not in kinds:
            lines.append(f"line {number}")
    return "\n".join(lines)


@given(first=PLACES, later=PLACES)
def test_reverting_a_change_keeps_changes_in_other_lines(first, later):
    later = {number: kind for number, kind in later.items() if number not in first}
    one, two = ("one", first), ("two", later)

    left = revert_lines(written(one, two), written(), written(one))

    # Lines that two changes put between the same two lines of the text may stand either way.
    assert left is not None
    assert sorted(left.split("\n")) == sorted(written(two).split("\n"))


@given(first=PLACES)
def test_a_change_with_nothing_after_it_is_reverted_exactly(first):
    assert revert_lines(written(("one", first)), written(), written(("one", first))) == written()


def test_lines_that_were_changed_again_are_a_conflict():
    assert revert_lines("a\nthird\nc", "a\nb\nc", "a\nsecond\nc") is None
