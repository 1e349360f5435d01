"""Detects a reply that repeats itself: small models fall into loops until a limit ends them.

Only the form counts: the last `WINDOW` characters repeat one text of at most `LONGEST` characters.
That is far beyond the rules, tables and blank lines of ordinary text.
"""

from kode.errors import RefusedError

WINDOW = 8_000  # 2,000 tokens: no honest text repeats itself for so long
LONGEST = 1_000
"""A text of this length has to come eight times in a row, a shorter one more often."""
STEP = 1_000
"""Checked again after this many characters."""


class Repetition:
    """Watches a reply as it arrives."""

    def __init__(self) -> None:
        self._end = ""
        self._new: list[str] = []
        self._new_chars = 0

    def add(self, piece: str) -> None:
        """Adds a piece. Raises: RefusedError once the reply repeats itself."""
        self._new.append(piece)
        self._new_chars += len(piece)
        if self._new_chars < STEP:
            return
        self._end = (self._end + "".join(self._new))[-WINDOW:]
        self._new.clear()
        self._new_chars = 0
        unit = find_repetition(self._end) if len(self._end) == WINDOW else ""
        if unit:
            raise RefusedError(
                f"The model repeated itself (the same {len(unit)} characters for {WINDOW} in a "
                "row), and the reply was ended. Ask in other words or for less; where the server "
                "is yours, set a repeat penalty there or use a larger model."
            )


def find_repetition(text: str) -> str:
    """The shortest text of at most `LONGEST` characters of which `text` is repetitions, the first
    possibly cut; "" if there is none."""
    last = text[-LONGEST:]
    before = text.rfind(last, 0, len(text) - 1)
    length = len(text) - len(last) - before
    if before < 0 or length > LONGEST or text[length:] != text[:-length]:
        return ""
    return text[-length:]
