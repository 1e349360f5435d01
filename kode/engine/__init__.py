"""The loop: from a person's text to a finished turn, everything on disk before the next step.

    turn.py      read this first: the turn and its steps
    reply.py     one reply of the model, retried and with room made where needed
    act.py       the calls of one reply: parsed, checked, put to the gate, run, clipped
    fence.py     the frame around text from outside
    context.py   what the model is told: system prompt, messages that fit, compaction
    window.py    what fills the model's window, for a person to read
    tokens.py    how many tokens a text is, without a tokenizer
    agent.py     the collaborators of a turn and its limits

The loop names no provider, tool or memory system. What does not belong here: anything a person
sees (`cli/`), any concrete class (`assembly.py`).
"""
