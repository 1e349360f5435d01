"""What may run: rules, what a shell command would do, the decision, and asking the person.

`rules` is the grammar; `shell` says what a command line would do; `decide` decides a call by rules
and mode; `gate` asks a person; `approvals` stores the answers that last. Nothing here runs a
command or draws a question.
"""
