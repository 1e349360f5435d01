"""The checks of `kode doctor` that plug-ins add, and those of the plug-ins themselves."""

from collections.abc import Iterator

from kode import installed
from kode.cli.commands.diagnosis import Finding
from kode.installed import Plugin


def findings() -> Iterator[Finding]:
    """One finding about all plug-ins that are not kode's own, or with the fault of one; then those
    of the plug-ins' own checks."""
    plugins = installed.installed()
    faults = [f"{one.name}: {one.fault}" for one in plugins if one.fault]
    faults += list(installed.clashes())
    used = [one.name for one in plugins if one.enabled and not one.is_own and not one.fault]
    if faults:
        yield Finding(
            what="plug-ins", state="missing", detail="; ".join(faults), next_step="kode plugin list"
        )
    elif used:
        yield Finding(what="plug-ins", state="ok", detail=", ".join(used))
    for plugin in installed.plugins():
        if plugin.checks:
            yield from _checked(plugin)


def _checked(plugin: Plugin) -> Iterator[Finding]:
    try:
        yield from installed.load(plugin, plugin.checks)()
    except Exception as error:
        yield Finding(
            what=plugin.name,
            state="missing",
            detail=f"the plug-in's checks failed: {type(error).__name__}: {error}",
            next_step=f"kode plugin disable {plugin.name}",
        )
