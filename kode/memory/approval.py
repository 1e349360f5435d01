"""Which thing a person or the model means by the beginning of its id. What waits for approval, and
what an approval does to it, is known to the system it is in.
"""

from collections.abc import Iterable

from kode.errors import MemoryRefused


def only_waiting(kind: str, waiting: Iterable[str], id: str) -> str:
    """The same among what waits for approval. Raises: MemoryRefused."""
    kind = f"{kind} that waits for approval"
    return only_one(kind, waiting, id, "`kode memory approve` without an id")


def only_one(kind: str, ids: Iterable[str], id: str, lists: str) -> str:
    """The one of `ids` that is `id` or begins so; `kind` says what they are of, `lists` what lists
    them. Raises: MemoryRefused when none does, or several."""
    known = list(ids)
    found = [id] if id in known else [one for one in known if one.startswith(id)]
    if len(found) == 1:
        return found[0]
    how_many = "More than one" if found else "No"
    raise MemoryRefused(f"{how_many} {kind} begins with {id!r}. {lists} lists them.")
