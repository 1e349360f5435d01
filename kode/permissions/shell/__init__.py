"""Predicts what a command line would do: the pure function `judge` takes a text and returns its
parts, each with a risk and a reason. `kode.permissions.decide` decides.

It only saves an attempt or a question. The sandbox keeps a command from doing harm; without one,
only a line in the closed grammar runs without asking.

    judge.py       read this first: from a text to its parts
    line.py        what is returned
    parse.py       the commands of a text: by the closed grammar, else by a search in it
    programs.py    programs.toml: which programs read, change, send, destroy, run another
    files.py       which path a word means, and the risk of reading or writing it
    checks.py      where each check of the project stands in its pipeline
"""

from kode.permissions.shell.judge import judge
from kode.permissions.shell.line import Leaves, Line, Part, Risk, worst

__all__ = ["Leaves", "Line", "Part", "Risk", "judge", "worst"]
