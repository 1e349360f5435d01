"""Command lines that attack, run for real through the installed command, in a jail of their own.

    jail.py      namespaces and a throw-away root: what a hole in kode could reach is only this
    world.py     what lies in the jail: a project, a home, keys, services; and what changed of it
    campaign.py  plays lines through `kode run`, and says which had an effect
    lines.py     the lines: those of the data file, variants of them, random ones
"""
