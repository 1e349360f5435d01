"""What would a command line do? `classify`, a pure function: a text in, its class and those of its
parts out. It decides nothing: `kode.permissions.decide` does.

    walk.py         read this first: over the syntax tree, from part to part
    syntax.py       what kinds of nodes there are; the parser
    flow.py         lists, branches, loops, functions
    assignments.py  variables          redirects.py  redirections, here-documents
    output.py       what a command prints, where that can be known
    state.py        folder, variables and functions, and what becomes of them on two ways
    words.py        what a word is when the line runs
    classes.py      the classes, worst last
    verbs.py        one command, by its name → its judge
    judge.py        what a judge is given, and its findings
    table.py        commands that need no judge, as data
    options.py      the options of a command            paths.py  where a path leads

The judges: readers, find, search, filters, pipes, archives, writers, builtins, wrappers, scripts,
environment, git and git_commands, remote, services; and, for what projects are built with, tools,
development, packages, interpreters.
"""

from kode.permissions.shell.walk import MAX_PARTS, classify

__all__ = ["MAX_PARTS", "classify"]
