"""`kode replay`: replays a session offline and compares it with its record.

A replay is the loop of kode with a provider, tools and a memory that answer from a transcript:
nothing is run, and nothing of the person's is changed.

    recording.py   a session in turns
    same.py        which differences count, and how to show them
    played.py      a provider that answers from the record and compares each request
    memory.py      memory's recorded texts
    agent.py       the settings, tools and session of the record
    play.py        opens a session with these parts and runs the turns again
    report.py      the outcome, as lines and as JSON
    cassette.py    a session as one file for another person
"""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="replay",
    summary="sessions replayed from their record; cassettes",
    commands={
        "replay": Command(
            run="kode.plugins.replay.command:main",
            summary="replay a session, and compare it with its record",
        )
    },
    exports={"cassette": "kode.plugins.replay.cassette:export"},
    replays={"cassette": "kode.plugins.replay.cassette:in_place"},
)
