"""Subagents: focused tasks in separate processes.

    protocol.py   the files and lines that cross between parent and child
    delegate.py   the `delegate_tasks` tool
    background.py a child as a job, which is read, told and stopped while it runs
    parent.py     starts, watches and ends children
    channel.py    messages between a child and its parent; the state of each
    lending.py    what a child has of its parent's servers
    records.py    each child's files, and how it ended
    child.py      what makes a process a child

A child gets a task file, a snapshot of memory, and no memory tool. It writes JSON lines to stdout,
the result last. Not here: the loop (`engine/`), the command line (`cli/commands/subagent.py`).
"""
