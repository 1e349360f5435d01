"""Pasted blocks, folded to a few words in the input line and whole again in what is sent."""

import re
from dataclasses import dataclass, field

FOLD_LINES = 5
FOLD_CHARACTERS = 1000
"""A paste of at least so many lines or characters is folded."""


@dataclass
class Pastes:
    """What was folded since the program started, by its placeholder."""

    _folded: dict[str, str] = field(default_factory=dict)

    def fold(self, text: str) -> str:
        """What to put in the input line for a pasted text: itself when it is short."""
        lines = text.rstrip("\n").count("\n") + 1
        if lines < FOLD_LINES and len(text) < FOLD_CHARACTERS:
            return text
        what = f"{lines} lines" if lines > 1 else f"{len(text):,} characters"
        place = f"[pasted {what}]"
        number = 2
        while self._folded.get(place, text) != text:
            place = f"[pasted {what}, #{number}]"
            number += 1
        self._folded[place] = text
        return place

    def unfold(self, line: str) -> str:
        """The line with every placeholder replaced by what was pasted."""
        if not self._folded:
            return line
        # One pass, so that a placeholder inside a pasted text stays the text it is.
        places = re.compile("|".join(map(re.escape, self._folded)))
        return places.sub(lambda match: self._folded[match[0]], line)
