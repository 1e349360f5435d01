"""Pasted blocks, folded to placeholders in the input line and expanded when sent; pasted images,
attached while their placeholder is in the line."""

import re
from dataclasses import dataclass, field
from typing import TypeVar

from kode.images import Picture

T = TypeVar("T")

FOLD_LINES = 5  # a pasted text as long as that hides what was typed
FOLD_CHARACTERS = 1000
"""A paste of at least this many lines or characters is folded."""


@dataclass
class Pastes:
    """Everything folded since the program started, by placeholder."""

    _folded: dict[str, str] = field(default_factory=dict)
    _pictures: dict[str, Picture] = field(default_factory=dict)

    def fold(self, text: str) -> str:
        """The text for the input line: the pasted text itself if it is short, else a
        placeholder."""
        lines = text.rstrip("\n").count("\n") + 1
        if lines < FOLD_LINES and len(text) < FOLD_CHARACTERS:
            return text
        what = f"{lines} lines" if lines > 1 else f"{len(text):,} characters"
        return _place(self._folded, f"pasted {what}", text)

    def add_picture(self, picture: Picture) -> str:
        """The placeholder of an image for the input line."""
        name = re.sub(r"[\[\]\s]+", " ", picture.name)
        return _place(self._pictures, f"image {name}", picture)

    def pictures_in(self, line: str) -> list[Picture]:
        """The images whose placeholders are in the line, in the order pasted."""
        return [picture for place, picture in self._pictures.items() if place in line]

    def unfold(self, line: str) -> str:
        """Replaces every placeholder in the line by what was pasted."""
        if not self._folded:
            return line
        # One pass, so that a placeholder inside a pasted text stays text.
        places = re.compile("|".join(map(re.escape, self._folded)))
        return places.sub(lambda match: self._folded[match[0]], line)


def _place(known: dict[str, T], what: str, value: T) -> str:
    """A unique placeholder for a value."""
    place, number = f"[{what}]", 2
    while known.get(place, value) != value:
        place, number = f"[{what}, #{number}]", number + 1
    known[place] = value
    return place
