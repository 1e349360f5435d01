"""The loop: from a person's text to a finished turn, everything on disk before the next step.

    turn.py      read this first: a turn and its steps
    agent.py     the collaborators of a turn, its limits, and the budget
    context.py   an open session as the model sees it: system prompt, messages, compaction
    reply.py     one reply of the model, with its retries
    action.py    what a call means, and whether it may run
    call.py      the calls of a reply: run, clip, record
    run.py       a running turn: its totals, how its checks ended, whether it runs in circles
    command.py   a command: tried in the sandbox or run outside
    tokens.py    token estimates without a tokenizer

State is in an `Agent`'s `Spend` (the budget of the process), a `Context` (one open session) and a
`Run` (one turn). An `Agent` is a value; its parts hold the rest, such as the gate its mode.

The loop names no provider, tool or memory system. Not here: anything a person sees (`cli/`), any
concrete class (`assembly.py`).
"""
