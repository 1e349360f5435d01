"""What a repository and a home bring: listed, tried, and approved.

listed    `kode extensions skills`, `commands`, `agents` and `hooks`
approved  `kode extensions trust`
"""

from dataclasses import replace

from kode.plugin import Command, Plugin

_COMMANDS = {
    name: Command(run=f"kode.plugins.brought.{run}", summary=summary)
    for name, run, summary in (
        ("skills", "listed:skills", "list skills, with source and status"),
        ("commands", "listed:commands", "list commands defined by Markdown files"),
        ("agents", "listed:agents", "list agent definitions for subagents"),
        ("hooks", "listed:hooks", "list hooks, or test those of an event"),
        (
            "trust",
            "approved:main",
            "show what of this repository is approved, and what is pending",
        ),
        ("approve", "approved:approve", "approve one item, or all that are pending"),
        ("revoke", "approved:revoke", "withdraw an approval"),
    )
}
_OLDER = ("skills", "commands", "agents", "hooks", "trust")  # names of their own, in no list

PLUGIN = Plugin(
    name="brought",
    summary="lists what a repository brings, and what you approved of it",
    commands={
        **{f"extensions {name}": one for name, one in _COMMANDS.items()},
        **{name: replace(_COMMANDS[name], summary="") for name in _OLDER},
    },
)
