"""Bundles of other people: `kode extensions` adds, shows, updates and removes them.

contents     reads a bundle from a folder, a git address or a marketplace: its files and its parts
approved     the approved copies in `$KODE_HOME/bundles`, and the command lines
"""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="bundles",
    summary="adds bundles of skills, commands, agents, hooks and servers",
    commands={
        f"extensions {name}": Command(run=f"kode.plugins.bundles.approved:{run}", summary=summary)
        for name, run, summary in (
            ("list", "list_bundles", "list what is installed"),
            ("add", "add_bundle", "show a bundle whole, and add it once you approve"),
            ("show", "show_bundle", "show a bundle: its parts, and what each may do"),
            ("update", "update_bundle", "fetch again; what changed is shown, and asked about"),
            ("remove", "remove_bundle", "remove a bundle"),
        )
    },
    bundles="kode.plugins.bundles.approved:approved_bundles",
)
