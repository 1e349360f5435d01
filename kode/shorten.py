"""A long text as one line of a list or a part of a sentence. How wide a terminal shows it, and how
a text is cut that keeps both its ends, is not known here.
"""


def shorten(text: str, max_chars: int) -> str:
    """The text on one line, its white space folded; what is over `max_chars` gives way to "…"."""
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"
