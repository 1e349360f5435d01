"""The loop: from a person's text to a finished turn, everything on disk before the next step.

    turn.py      read this first: a turn and its steps
    run.py       one running turn and its totals so far
    agent.py     the collaborators of a turn, its limits, and the budget
    context.py   an open session as the model sees it: system prompt, messages, compaction
    reply.py     one reply of the model, with its retries
    act.py       the calls of a reply: parse, check, judge by the chain, run, clip
    run.py       a running turn: its totals, how its checks ended, whether it runs in circles
    trial.py     a command: tried in the sandbox or run outside
    fence.py     the frame around text from outside
    window.py    what fills the model's window, for a person
    tokens.py    token estimates without a tokenizer

State is in an `Agent`'s `Spend` (the budget of the process), a `Context` (one open session) and a
`Run` (one turn). The `Agent` itself is a value; what its parts hold, such as the mode of the gate,
is behind their protocols.

The loop names no provider, tool or memory system. Not here: anything a person sees (`cli/`), any
concrete class (`assembly.py`).
"""
