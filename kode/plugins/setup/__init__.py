"""`kode init`: guided set-up, which the prompt offers on a machine without a key or a server."""

from kode.plugin import Command, Plugin

PLUGIN = Plugin(
    name="setup",
    summary="guided set-up of a model",
    commands={
        "init": Command(run="kode.plugins.setup.init:main", summary="guided set-up"),
        "init first": Command(
            run="kode.plugins.setup.init:first_run",
            summary="the same, offered before the first prompt",
        ),
    },
)
