from hypothesis import given
from hypothesis import strategies as st

from kode.memory.lines import merge_lines
from tests.tables import for_each

LINES = st.lists(st.sampled_from("abcdef"), max_size=6).map("\n".join)


@for_each(
    ("base", "current", "update", "result"),
    [
        ("a", "a", "a\nb", "a\nb"),
        ("a", "a\nhand", "a", "a\nhand"),
        ("a\nb\nc", "hand\na\nb\nc", "a\nb\nc\nnew", "hand\na\nb\nc\nnew"),
        ("a\nb\nc", "a\nb by hand\nc", "a\nb\nc by model", "a\nb by hand\nc by model"),
        ("a\nb", "a\nb\nhand", "a\nb\nnew", "a\nb\nhand\nnew"),
        ("a\nb", "a\nby hand", "a\nby model", "a\nby hand\nby model"),
        ("a\nb", "b", "a\nb\nc", "b\nc"),
        ("", "hand", "new", "hand\nnew"),
    ],
)
def test_both_changes_are_there(base, current, update, result):
    assert merge_lines(base, current, update) == result


@given(LINES, LINES, LINES)
def test_nothing_that_a_person_added_is_lost(base, current, update):
    added = set(current.split("\n")) - set(base.split("\n"))

    assert added <= set(merge_lines(base, current, update).split("\n"))


@given(LINES, LINES, LINES)
def test_nothing_that_the_model_added_is_lost(base, current, update):
    added = set(filter(str.strip, update.split("\n"))) - set(base.split("\n"))

    assert added <= set(merge_lines(base, current, update).split("\n"))
