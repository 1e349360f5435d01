"""Memory between sessions: one log of statements, and files that are rendered from it.

Several systems stand behind one contract (`contract`), which `guarded` opens. Each is a package
with a policy and a layout (`policy`), over one core (`system`).
"""
