"""A line that was written from statements as they no longer are: what of it still holds, so that
neither side is lost. Values only.

A new text always comes in. What a colleague has changed meanwhile stays as they left it.
"""

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import replace

from kode.plugin import LedgerLine, Row

ADDS_NOTHING = ("merge", "prune")
"""Kinds of changes that kode makes by itself: where a colleague was first, theirs is enough."""
_SET_THERE = ("person", "host")
"""Fields of a row that the server sets."""


def push_of(line: LedgerLine) -> uuid.UUID:
    """Names a line to the server: one that is sent twice, because kode ended in between, counts
    once."""
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{line.id} {line.change.get('at')}")


def fitted(line: LedgerLine, standing: Mapping[str, Row]) -> LedgerLine | None:
    """The line as it is made of the statements that stand now, by id; None when nothing is left of
    it."""
    rows = {id: plain(row) for id, row in standing.items()}
    was = {str(row["id"]): row for row in line.before}
    left = {str(row["id"]): row for row in line.after}
    untouched = {id for id, row in was.items() if rows.get(id) == row}
    if len(untouched) == len(was) and not (left.keys() - was.keys()) & rows.keys():
        return line
    if line.change["kind"] in ADDS_NOTHING:
        return None
    if not was.keys() - left.keys() <= untouched:
        # Forgetting only a part would leave the rest without the note it belongs to.
        untouched &= left.keys()
    after = []
    for id, row in left.items():
        stands = rows.get(id)
        known = {one["content"] for one in (was.get(id), stands) if one is not None}
        if id in untouched or (id not in was and stands is None):
            after.append(row)
        elif row["content"] not in known:  # else only its marks had changed, and theirs count
            beside = {**row, "id": uuid.uuid5(push_of(line), id).hex[:16]}
            after.append(row if stands is None else beside)
    before = [row for id, row in was.items() if id in untouched]
    if not before and not after:
        return None
    # A person decides between what a colleague made of a note and what this line makes of it.
    new = [row["id"] for row in after if row["id"] not in was and not row.get("superseded_by")]
    theirs = [rows[id].get("superseded_by") or id for id in was if id in rows.keys() - untouched]
    against = [[["notes", other], ["notes", id]] for other in theirs for id in new if other != id]
    change = {
        **line.change,
        **({"against": against} if against else {}),
        "id": secrets.token_hex(6),
        "target": f"notes/{(after or before)[-1]['id']}",
        "reason": f"{line.reason} (beside what a colleague had changed)",
    }
    return replace(line, change=change, before=tuple(before), after=tuple(after))


def is_there(line: LedgerLine, standing: Mapping[str, Row]) -> bool:
    """Whether all is as the line leaves it."""
    left = {str(row["id"]): row for row in line.after}
    rows = {id: plain(row) for id, row in standing.items()}
    return {id: row for id, row in rows.items() if id in line.ids} == left


def plain(row: Row) -> Row:
    """A statement without what the server sets."""
    return {name: value for name, value in row.items() if name not in _SET_THERE}
