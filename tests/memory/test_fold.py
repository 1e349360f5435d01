"""A view that grows by single changes is the view of all of them."""

from hypothesis import given, settings, strategies as st

from kode.memory.fold import MemoryView, fold
from kode.memory.statement import Amendment, MemoryChange, Statement
from tests.effort import share

_states = st.sampled_from(["current", "waiting", "archived"])
_added = st.lists(st.tuples(st.sampled_from("ab"), _states), max_size=3)
_steps = st.tuples(_added, st.integers(0, 9), st.integers(0, 9), st.booleans(), st.booleans())


@given(st.lists(_steps, max_size=12))
@settings(max_examples=share(200))
def test_a_view_that_grows_is_the_view_of_all_changes(steps) -> None:
    changes, ids, view = list[MemoryChange](), list[str](), MemoryView()
    for added, ended, amended, has_end, has_amendment in steps:
        new = [
            Statement(place=place, text=place, claimed_at="", who="user", state=state)
            for place, state in added
        ]
        ids += [statement.id for statement in new]
        end = (ids[ended % len(ids)],) if ids and has_end else ()
        amendment = Amendment(state="current")
        set = {ids[amended % len(ids)]: amendment} if ids and has_amendment else {}
        change = MemoryChange(who="user", kind="x", system="t", add=tuple(new), end=end, set=set)
        changes.append(change)
        part = view.extract("ab", [change])
        view = view.with_more([change])
        assert view == fold(changes)
        assert [part.in_place(place) for place in "ab"] == [view.in_place(place) for place in "ab"]
