"""What may run: rules, what a shell command would do, the decision, and asking the person.

`rules` is the grammar; `shell` says what a command line would do; `decide` is a pure function of
rules, mode and call; `gate` asks a person; `approvals` stores the answers that last. Not here:
running anything, or showing a question.
"""
