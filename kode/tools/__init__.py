"""The tools of every session: each is a function of its name. `builtin` lists
them; the other files hold shared code.

To add one, see `docs/adding-a-tool.md`. Tools of memory and of subagents live there. The gate, not
a tool, decides what a call may do.
"""
