"""Patterns mean the same in every Python that kode runs on."""

import re
from pathlib import Path

KODE = Path(__file__).parents[2] / "kode"

POSSESSIVE_GROUP = re.compile(r"[)}][*+?]\+|\)\{\{?[0-9,]+\}\}?\+|\(\?>")
"""A group, or a pattern put in by its name, that is repeated possessively; an atomic group."""


def test_no_group_is_repeated_possessively() -> None:
    """Python before 3.11.5 matches too much there (gh-106052)."""
    wrong = [
        f"{path.relative_to(KODE)}:{number}"
        for path in sorted(KODE.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if POSSESSIVE_GROUP.search(line)
    ]

    assert wrong == []
