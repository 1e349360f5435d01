"""What would a command line do? `judge`, a pure function, takes a text and returns its parts, each
with a risk and a reason. It decides nothing: `kode.permissions.decide` does.

It only saves a try or a question. What keeps a command from doing harm is the sandbox; where there
is none, only a line in the closed grammar runs unasked.

    judge.py       read this first: from a text to its parts
    line.py        what is returned
    plain.py       the closed grammar and a little more: literal words, operators, redirections
    tree.py        every other text: the programs that the grammar of bash finds in it
    programs.py    programs.toml: who only reads, who changes, sends, destroys
    wrappers.py    programs that run another: env, sudo, xargs, bash -c, find -exec
    paths.py       where a word leads, and what reading or writing there means
"""

from kode.permissions.shell.judge import judge
from kode.permissions.shell.line import Line, Part, Risk, worst

__all__ = ["Line", "Part", "Risk", "judge", "worst"]
