"""A line written from what is no longer so: neither side is lost. Two people change the same notes,
each without knowing of the other; the second line is fitted to what the first one left.
"""

from hypothesis import given
from hypothesis import strategies as st

from kode.plugin import LedgerLine
from kode.plugins.team.fitting import fitted, is_there

IDS = ("a", "b", "c")


def note(id, content, **fields):
    return {"id": id, "content": content, **fields}


def base():
    return {id: note(id, f"{id} as it was") for id in IDS}


def remember(stand, who, number, id):
    return "remember", (), (note(f"{who}{number}", f"{who} found {number}"),)


def update(stand, who, number, id):
    old, new = stand[id], note(f"{who}{number}", f"{id} as {who} has it, {number}")
    return "update", (old,), ({**old, "superseded_by": new["id"]}, new)


def forget(stand, who, number, id):
    return "forget", (stand[id],), ()


def approve(stand, who, number, id):
    return "approve", (stand[id],), ({**stand[id], "untrusted": "approved"},)


def edit(stand, who, number, id):
    return "import", (stand[id],), ({**stand[id], "content": f"{who} edited {id}, {number}"},)


def merge(stand, who, number, id):
    notes = [one for one in stand.values() if "superseded_by" not in one]
    one = note(f"{who}{number}", "\n".join(old["content"] for old in notes), kind="summary")
    marked = tuple({**old, "superseded_by": one["id"]} for old in notes)
    return "merge", tuple(notes), (*marked, one)


STEPS = (remember, update, forget, approve, edit, merge)
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(IDS)), max_size=5)


def applied(stand, line):
    if line is None:
        return stand
    left = {one["id"]: one for one in line.after}
    gone = {one["id"] for one in line.before} - left.keys()
    return {id: one for id, one in stand.items() if id not in gone} | left


def changes(who, wanted):
    """What a person does to the notes as they were, in order."""
    stand, made = base(), []
    for number, (step, id) in enumerate(wanted):
        active = id in stand and "superseded_by" not in stand[id]
        if step is merge and sum("superseded_by" not in one for one in stand.values()) < 2:
            continue
        if step not in (remember, merge) and not active:
            continue
        kind, before, after = step(stand, who, number, id)
        change = {"id": f"{who}-{number}", "at": "now", "kind": kind, "reason": kind, "target": ""}
        line = LedgerLine(change=change, before=tuple(before), after=tuple(after))
        stand = applied(stand, line)
        made.append(line)
    return made


@given(first=steps, second=steps)
def test_a_fitted_line_keeps_new_texts_and_others_changes(first, second):
    stand = base()
    for line in changes("ada", first):
        stand = applied(stand, line)
    for line in changes("bob", second):
        now = dict(stand)
        kept = fitted(line, now)
        stand = applied(now, kept)

        assert kept is None or all(now[one["id"]] == one for one in kept.before)
        found = [one["id"] for one in line.before if now.get(one["id"], one) != one]
        assert all(stand[id] == now[id] for id in found)
        if line.change["kind"] != "merge":
            was = {one["id"] for one in line.before}
            texts = {one["content"] for one in stand.values()}
            assert {one["content"] for one in line.after if one["id"] not in was} <= texts


@given(wanted=steps)
def test_alone_a_line_is_what_it_was(wanted):
    stand = base()
    for line in changes("ada", wanted):
        assert fitted(line, stand) == line
        stand = applied(stand, line)
        assert is_there(line, stand)


def test_two_who_update_one_note_leave_both_texts_active():
    stand = base()
    (ada,) = changes("ada", [(update, "a")])
    (bob,) = changes("bob", [(update, "a")])
    stand = applied(stand, ada)

    made = fitted(bob, stand)
    stand = applied(stand, made)

    (((_, first), (_, second)),) = made.change["against"]
    assert [stand[id]["content"] for id in (first, second)] == [
        "a as ada has it, 0",
        "a as bob has it, 0",
    ]
    active = {one["content"] for one in stand.values() if "superseded_by" not in one}
    assert {"a as ada has it, 0", "a as bob has it, 0"} <= active
    assert "a as it was" not in active


def test_a_change_that_undoes_anothers_unseen_is_dropped():
    for first, second in ((update, forget), (forget, merge)):
        stand = base()
        (ada,) = changes("ada", [(first, "a")])
        (bob,) = changes("bob", [(second, "a")])
        assert fitted(bob, applied(stand, ada)) is None
