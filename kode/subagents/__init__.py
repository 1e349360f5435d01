"""Subagents: focused tasks in processes of their own.

    protocol.py   the files and lines that cross between parent and child
    delegate.py   the `delegate_tasks` tool
    parent.py     starts children, watches them, ends them
    channel.py    what a child says to its parent, and hears; what is known of each
    records.py    what is on disk of each child, and what became of it
    child.py      what makes a process a child

A child gets a task file, a snapshot of memory, and no memory tool. It speaks JSON lines on stdout,
the result last. What does not belong here: the loop (`engine/`), the command line
(`cli/subagent.py`).
"""
