"""`kode replay`: replays a session offline, continued from a step, compared.

A replay is the loop of kode with a provider, a gate and a memory made of a transcript.

    recording.py   a session's files, in turns
    scratch.py     a copy of the project as it was before the first step
    same.py        which differences count, and how to show them
    played.py      a provider that answers from the record and compares each request
    answers.py     judges calls, and answers some of them, as it was then
    memory.py      memory's recorded texts
    agent.py       the settings and tools of the record, with changes
    play.py        opens a session with these parts and runs the turns again
    report.py      the outcome, as lines and as JSON
    trials.py      several live runs from a step; compares two variants
    cassette.py    a session as one file for another person

Nothing here changes the project, the sessions or the memory of the person.
"""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="replay",
    summary="sessions replayed in a copy, or continued from a step; cassettes",
    commands={
        "replay": Command(
            run="kode.plugins.replay.command:main",
            summary="replay a session, or continue it from one of its steps",
        )
    },
    exports={"cassette": "kode.plugins.replay.cassette:export"},
    replays={"cassette": "kode.plugins.replay.cassette:in_place"},
)
