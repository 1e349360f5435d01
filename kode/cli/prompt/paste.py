"""Pasted blocks, folded to a few words in the input line and whole again in what is sent; pasted
pictures, which go along where their words are in the line."""

import re
from dataclasses import dataclass, field
from typing import TypeVar

from kode.pictures import Picture

T = TypeVar("T")

FOLD_LINES = 5
FOLD_CHARACTERS = 1000
"""A paste of at least so many lines or characters is folded."""


@dataclass
class Pastes:
    """What was folded since the program started, by its placeholder."""

    _folded: dict[str, str] = field(default_factory=dict)
    _pictures: dict[str, Picture] = field(default_factory=dict)

    def fold(self, text: str) -> str:
        """What to put in the input line for a pasted text: itself when it is short."""
        lines = text.rstrip("\n").count("\n") + 1
        if lines < FOLD_LINES and len(text) < FOLD_CHARACTERS:
            return text
        what = f"{lines} lines" if lines > 1 else f"{len(text):,} characters"
        return _place(self._folded, f"pasted {what}", text)

    def add_picture(self, picture: Picture) -> str:
        """What to put in the input line for a picture."""
        name = re.sub(r"[\[\]\s]+", " ", picture.name)
        return _place(self._pictures, f"picture {name}", picture)

    def pictures_in(self, line: str) -> list[Picture]:
        """The pictures whose words are in the line, in the order they were pasted."""
        return [picture for place, picture in self._pictures.items() if place in line]

    def unfold(self, line: str) -> str:
        """The line with every placeholder replaced by what was pasted."""
        if not self._folded:
            return line
        # One pass, so that a placeholder inside a pasted text stays the text it is.
        places = re.compile("|".join(map(re.escape, self._folded)))
        return places.sub(lambda match: self._folded[match[0]], line)


def _place(known: dict[str, T], what: str, value: T) -> str:
    """The words that stand for a value, which no other value has."""
    place, number = f"[{what}]", 2
    while known.get(place, value) != value:
        place, number = f"[{what}, #{number}]", number + 1
    known[place] = value
    return place
