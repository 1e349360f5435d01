"""Subagents: focused tasks in separate processes.

    task.py       the files and lines that cross between parent and child, and their clock
    tool.py       the `delegate_tasks` tool
    parent.py     starts, watches, answers and ends children
    records.py    each child's files, and how it ended
    child.py      what makes a process a child

A child gets a task file, a snapshot of memory, and no memory tool. It writes JSON lines to stdout,
the result last. Not here: the loop (`engine/`), the command line (`cli/commands/subagent.py`).
"""
