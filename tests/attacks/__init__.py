"""Attacks, run for real: nothing of them may have an effect.

Command lines, in a jail of namespaces:

jail.py         namespaces and a throw-away root: what a hole in kode could reach is only this
world.py        the jail as one user's machine, and what a line did to it: of `files` and of
                `witness` (connections, processes, the machine)
campaign.py     plays lines through `kode run`, and says which had an effect
lines.py        the lines: those of the data file, and variants of them

Kinds of attack in a temporary home are in `test_kinds.py`, swapped folders in `test_races.py`.
"""
