"""Which of the things that a person names by the beginning of an id is meant: one that waits for
approval, or any. What waits, and what an approval does to it, is known to the system it is in.
"""

from collections.abc import Iterable

from kode.errors import MemoryError_


def only_waiting(kind: str, waiting: Iterable[str], id: str) -> str:
    """The one id that is `id` or begins so, among those that wait for approval; `kind` is what
    they are of, in one word. Raises: MemoryError_ when none does, or several."""
    listed = "`kode memory approve` without an id"
    return the_one(kind, waiting, id, f"No {kind} that waits for approval", listed)


def the_one(kind: str, ids: Iterable[str], id: str, none: str, listed: str) -> str:
    """The same among any ids; `none` says what there is none of, `listed` what lists them."""
    known = list(ids)
    found = [id] if id in known else [one for one in known if one.startswith(id)]
    if len(found) == 1:
        return found[0]
    what = f"Several {kind}s begin" if found else f"{none} begins"
    raise MemoryError_(f"{what} with {id!r}. {listed} lists them.")
