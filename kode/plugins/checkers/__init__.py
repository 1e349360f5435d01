"""Checkers after an edit: the model gets their new findings with the edit's result."""

from kode.plugin import Plugin

PLUGIN = Plugin(
    name="checkers",
    summary="checks a file after an edit",
    around="kode.plugins.checkers.diagnostics:around",
)
