"""The loop: from a person's text to a finished turn, everything on disk before the next step.

    turn.py      read this first: the turn and its steps
    run.py       one turn as it runs, and what it has come to so far
    agent.py     the collaborators of a turn, its limits, and the budget
    context.py   an open session as the model sees it: system prompt, messages, compaction
    reply.py     one reply of the model, with its retries
    act.py       the calls of one reply: parsed, checked, put to the gate, run, clipped
    evidence.py  what a turn has checked, from how commands ended
    trial.py     a command: tried in the sandbox, or run outside
    fence.py     the frame around text from outside
    window.py    what fills the model's window, for a person to read
    tokens.py    how many tokens a text is, without a tokenizer

Four values hold all state: an `Agent` (fixed), its `Spend` (the budget of the process), a `Context`
(one open session) and a `Run` (one turn).

The loop names no provider, tool or memory system. What does not belong here: anything a person
sees (`cli/`), any concrete class (`assembly.py`).
"""
