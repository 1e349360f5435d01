"""The loop: from a person's text to a finished turn, everything on disk before the next step.

    turn.py      read this first: a turn and its steps
    agent.py     the collaborators of a turn, its limits, and the budget
    run.py       a running turn: its totals, how its checks ended, whether it runs in circles
    context.py   an open session as the model sees it; compaction.py: what replaces old messages
    reply.py     one reply of the model, with its retries
    call.py      the calls of a reply: parse, judge, run, clip, record
    command.py   a command: tried in the sandbox or run outside
    tokens.py    token estimates without a tokenizer

Not here: anything a person sees (`cli/`), any concrete provider or memory (`assembly.py`).
"""
