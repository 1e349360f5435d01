"""Command lines that attack, run for real through the installed command, in a jail of their own.

jail.py      namespaces and a throw-away root: what a hole in kode could reach is only this
world.py     the jail as one user's machine, and what a line did to it: of `files`, `canaries`,
             and `witness` (connections, processes, the machine)
campaign.py  plays lines through `kode run`, and says which had an effect
direct.py    the same with nobody judging the lines: the kernel alone
lines.py     the lines: those of the data file, variants of them, random ones
"""
