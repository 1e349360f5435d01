"""`kode completion`: what a shell needs to complete kode's command line."""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="completion",
    summary="completes kode's command line in bash, zsh and fish",
    commands={
        "completion": Command(
            run="kode.plugins.completion.command:main",
            summary="print a completion script for bash, zsh or fish",
        ),
        "completion answer": Command(
            run="kode.plugins.completion.command:answer",
            summary="the next words, for the shell that asks",
        ),
    },
)
