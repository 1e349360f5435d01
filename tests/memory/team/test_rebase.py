"""A change made from what is no longer so: neither side is lost. Two people change the same notes,
each without knowing of the other; the second change is made of what the first one left.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kode.memory.notes.note import Note
from kode.memory.notes.team.rebase import Sides, rebase

TIME = "2026-03-01T12:00:00.000Z"
IDS = ("a", "b", "c")


def note(id, content, **fields):
    return Note(id=id, content=content, created_at=TIME, **fields)


def base():
    return {id: note(id, f"{id} as it was") for id in IDS}


def remember(stand, who, number, id):
    return "remember", (), (note(f"{who}{number}", f"{who} found {number}"),)


def update(stand, who, number, id):
    old, new = stand[id], note(f"{who}{number}", f"{id} as {who} has it, {number}")
    return "update", (old,), (replace(old, superseded_by=new.id), new)


def forget(stand, who, number, id):
    return "forget", (stand[id],), ()


def approve(stand, who, number, id):
    return "approve", (stand[id],), (replace(stand[id], untrusted="approved"),)


def edit(stand, who, number, id):
    return "import", (stand[id],), (replace(stand[id], content=f"{who} edited {id}, {number}"),)


def merge(stand, who, number, id):
    notes = [one for one in stand.values() if one.superseded_by is None]
    one = note(f"{who}{number}", "\n".join(old.content for old in notes), kind="summary")
    marked = tuple(replace(old, superseded_by=one.id) for old in notes)
    return "merge", tuple(notes), (*marked, one)


STEPS = (remember, update, forget, approve, edit, merge)
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(IDS)), max_size=5)


def applied(stand, sides):
    gone = {one.id for one in sides.before} - {one.id for one in sides.after}
    return {id: one for id, one in stand.items() if id not in gone} | {
        one.id: one for one in sides.after
    }


def changes(who, wanted):
    """What a person does to the notes as they were, in order."""
    stand, made = base(), []
    for number, (step, id) in enumerate(wanted):
        active = id in stand and stand[id].superseded_by is None
        if step is merge and sum(one.superseded_by is None for one in stand.values()) < 2:
            continue
        if step not in (remember, merge) and not active:
            continue
        kind, before, after = step(stand, who, number, id)
        sides = Sides(tuple(before), tuple(after))
        stand = applied(stand, sides)
        made.append((kind, sides))
    return made


def numbered(prefix):
    numbers = iter(range(1000))
    return lambda: f"{prefix}{next(numbers)}"


@given(first=steps, second=steps)
def test_a_rebase_keeps_new_texts_and_others_changes(first, second):
    stand = base()
    for _, sides in changes("ada", first):
        stand = applied(stand, sides)
    new_id = numbered("new")
    for kind, sides in changes("bob", second):
        now = dict(stand)
        kept = rebase(kind, sides, now, new_id)
        stand = applied(now, kept)

        assert all(now[one.id] == one for one in kept.before)
        changed_by_others = [one.id for one in sides.before if one.id in now and now[one.id] != one]
        assert all(stand[id] == now[id] for id in changed_by_others)
        if kind != "merge":
            texts = {one.content for one in stand.values()}
            assert {one.content for one in sides.fresh} <= texts


@given(wanted=steps)
def test_alone_a_change_is_what_it_was(wanted):
    stand = base()
    for kind, sides in changes("ada", wanted):
        assert rebase(kind, sides, stand, numbered("new")) == sides
        stand = applied(stand, sides)


def test_two_who_update_one_note_leave_both_texts_active():
    stand = base()
    ((_, ada),) = changes("ada", [(update, "a")])
    ((_, bob),) = changes("bob", [(update, "a")])
    stand = applied(stand, ada)

    stand = applied(stand, rebase("update", bob, stand, numbered("new")))

    active = {one.content for one in stand.values() if one.superseded_by is None}
    assert {"a as ada has it, 0", "a as bob has it, 0"} <= active
    assert "a as it was" not in active


def test_a_note_one_updated_cannot_be_forgotten_unseen():
    stand = base()
    ((_, ada),) = changes("ada", [(update, "a")])
    ((_, bob),) = changes("bob", [(forget, "a")])
    stand = applied(stand, ada)

    assert rebase("forget", bob, stand, numbered("new")).ids == set()


def test_a_merge_by_kode_yields_to_a_persons_change():
    stand = base()
    ((_, ada),) = changes("ada", [(forget, "b")])
    ((_, bob),) = changes("bob", [(merge, "a")])
    stand = applied(stand, ada)

    assert rebase("merge", bob, stand, numbered("new")).ids == set()
