"""What may run: rules, what a shell command would do, the decision, and asking the person.

`rules` is the grammar; `shell` says what a command line would do; `decide` is a pure function of
rules, mode and call; `gate` asks a person and keeps what they approved. Running anything, and
showing a question, belong to other rooms.
"""
