"""`kode cost`: what requests used and cost, and why a cache was lost.

command    parses the flags and prints
figures    the cost of a session and of a period
breaks     where a cache was lost, and why
pages      the same in `kode view`
sent       what the requests of a session were, as far as they are on record
"""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="cost",
    summary="tokens and cost, and why a cache was lost",
    commands={
        "cost": Command(
            run="kode.plugins.cost.command:main",
            summary="show tokens and cost, and why a cache was lost",
        )
    },
    pages="kode.plugins.cost.pages:PAGES",
)
