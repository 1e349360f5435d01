"""How much a test tries: all in `make test-all` and with `EXAMPLES=all`, a part in `make test`."""

from hypothesis import settings

ALL = 100
PART = 20
"""Of each `ALL` examples, those that `make test` tries."""


def share(count: int) -> int:
    """Of so many examples, how many to try in this run."""
    return -(-count * settings.default.max_examples // ALL)
