"""A session played again: offline, continued from a step, compared.

    recording.py   what a session has on disk, and its turns
    scratch.py     a copy of the project as it was before the first step
    same.py        which differences count, and how they are shown
    played.py      a provider that answers from the record and compares each request
    answers.py     a gate and tools that keep to the record
    memory.py      what memory gave then
    agent.py       an agent of these parts
    play.py        runs the turns again
    report.py      what came of it, in lines and as JSON
    trials.py      continued live from a step, several times; two ways side by side
    cassette.py    a session as one file for another person

Nothing here changes the project, the sessions or the memory of the person.
"""
