"""Memory between sessions: one log of statements, and files that are rendered from it. Several
systems implement one contract (`contract`), each with a policy and a layout (`policy`), over one
core (`system`).
"""
