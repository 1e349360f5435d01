"""What a repository and a home bring: listed, tried, and approved.

listed    `kode extensions skills`, `commands`, `agents` and `hooks`
approved  `kode extensions trust`
"""

from dataclasses import replace

from kode.plugin import Command, Plugin

_COMMANDS = {
    "skills": Command(
        run="kode.plugins.brought.listed:skills",
        summary="list skills, with source and status",
    ),
    "commands": Command(
        run="kode.plugins.brought.listed:commands",
        summary="list commands defined by Markdown files",
    ),
    "agents": Command(
        run="kode.plugins.brought.listed:agents",
        summary="list agent definitions for subagents",
    ),
    "hooks": Command(
        run="kode.plugins.brought.listed:hooks",
        summary="list hooks, or test those of an event",
    ),
    "trust": Command(
        run="kode.plugins.brought.approved:main",
        summary="show what you approved of this repository, and what is pending",
    ),
}

PLUGIN = Plugin(
    name="brought",
    summary="lists what a repository brings, and what you approved of it",
    commands={
        **{f"extensions {name}": one for name, one in _COMMANDS.items()},
        "extensions approve": Command(
            run="kode.plugins.brought.approved:approve",
            summary="approve one item, or all that are pending",
        ),
        "extensions revoke": Command(
            run="kode.plugins.brought.approved:revoke", summary="withdraw an approval"
        ),
        **{name: replace(one, summary="") for name, one in _COMMANDS.items()},
    },
)
