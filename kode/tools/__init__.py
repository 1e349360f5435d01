"""The tools of every session, which `builtin` lists; `docs/adding-a-tool.md` says how to add one.

The gate, not a tool, decides what a call may do.
"""
