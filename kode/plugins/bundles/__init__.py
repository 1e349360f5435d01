"""Bundles of other people: `kode extensions` adds, shows, updates and removes them.

tree         files in memory, read without following links
manifest     a tree → its parts, and what kode does not use of it
sources      a folder, a git address or an entry of a marketplace → a tree of files
copies       the approved copies in `$KODE_HOME/bundles`
show         what a person is shown before the yes
command      the command lines
"""

from kode.plugin import Command, Plugin

_RUN = "kode.plugins.bundles.command:main"

PLUGIN = Plugin(
    name="bundles",
    summary="adds bundles of skills, commands, agents, hooks and servers",
    commands={
        "extensions": Command(run=_RUN, summary="list and approve skills, hooks ..., add bundles"),
        "extension": Command(run=_RUN, summary=""),
    },
    bundles="kode.plugins.bundles.copies:approved_bundles",
)
