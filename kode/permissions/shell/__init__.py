"""Predicts what a command line would do: `judge_line` takes a text and returns its parts,
each with a risk and a reason, without running anything. `kode.permissions.decide` decides.

Judging only saves an attempt or a question. The sandbox keeps a command from doing harm; without
one, only a line in the closed grammar runs without asking. `judge.py` judges the commands that
`parse.py` finds in a text, by what `programs.py` and `programs.toml` say about programs.
"""
