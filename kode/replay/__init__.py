"""Replays a session: offline, continued from a step, compared.

    recording.py   a session's files, in turns
    scratch.py     a copy of the project as it was before the first step
    same.py        which differences count, and how to show them
    played.py      a provider that answers from the record and compares each request
    answers.py     a gate and tools that use recorded results
    memory.py      memory's recorded texts
    agent.py       an agent of these parts
    play.py        runs the turns again
    report.py      the outcome, as lines and as JSON
    trials.py      several live runs from a step; compares two variants
    cassette.py    a session as one file for another person

Nothing here changes the project, the sessions or the memory of the person.
"""
