"""`kode replay`: replays a session offline and compares it with its record.

A replay is the loop of kode with a provider, tools and a memory that answer from a transcript:
nothing is run, and nothing of the person's is changed.

    recording   a session in turns; as one file for another person: a cassette; differences
    replay      the command: the turns again, with answers and results of the record
"""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="replay",
    summary="sessions replayed from their record; cassettes",
    commands={
        "replay": Command(
            run="kode.plugins.replay.replay:main",
            summary="replay a session, and compare it with its record",
        )
    },
    exports={"cassette": "kode.plugins.replay.recording:export_cassette"},
    replays={"cassette": "kode.plugins.replay.replay:open_cassette"},
)
