"""`kode demo`: a tour that needs no key. See `tour`."""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="demo",
    summary="a two-minute tour on a scratch project",
    commands={
        "demo": Command(
            run="kode.plugins.demo.tour:main", summary="take a two-minute tour, no key needed"
        )
    },
)
