"""The checks of `kode doctor` that plug-ins add, and those of the plug-ins themselves."""

import pkgutil
from collections.abc import Iterator

from kode import installed
from kode.cli.commands.diagnosis import Finding
from kode.installed import Plugin

WHAT = "plug-ins"


def findings() -> Iterator[Finding]:
    """The fault of each plug-in that has one, or one finding about all that are not kode's own;
    then those of the plug-ins' own checks. All that a plug-in of others names is imported."""
    working, used = list[Plugin](), list[str]()
    faulty = False
    for one in installed.installed():
        fault = one.fault or (_fault_in(one.plugin) if one.plugin and not one.is_own else "")
        if fault:
            faulty = True
            yield _missing(WHAT, f"{one.name}: {fault}", one.name)
        elif one.plugin is not None:
            working.append(one.plugin)
            used += [] if one.is_own else [one.name]
    for clash in installed.clashes():
        faulty = True
        yield Finding(what=WHAT, state="missing", detail=clash, next_step="kode plugin list")
    if used and not faulty:
        yield Finding(what=WHAT, state="ok", detail=", ".join(used))
    for plugin in working:
        if plugin.checks:
            try:
                yield from installed.load(plugin, plugin.checks)()
            except Exception as error:
                detail = f"the plug-in's checks failed: {type(error).__name__}: {error}"
                yield _missing(plugin.name, detail, plugin.name)


def _fault_in(plugin: Plugin) -> str:
    """The first thing that a plug-in names and that cannot be imported; "" if all can."""
    for where in installed.imported_by(plugin):
        try:
            pkgutil.resolve_name(where)
        except Exception as error:
            return f"{where}: {type(error).__name__}: {error}"
    return ""


def _missing(what: str, detail: str, name: str) -> Finding:
    step = f"update it, or `kode plugin disable {name}`"
    return Finding(what=what, state="missing", detail=detail, next_step=step)
