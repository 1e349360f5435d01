"""What `kode doctor` says of other agents' settings."""

from collections.abc import Iterator
from pathlib import Path

from kode.plugin import Finding, find_foreign


def checks() -> Iterator[Finding]:
    """A finding for each file, with what counts of it and why the rest does not."""
    for one in find_foreign(Path.cwd()):
        said = one.settings
        counts = {"denied": said.deny, "asked about": said.ask, "variables": said.environment}
        parts = [f"{len(some)} {what}" for what, some in counts.items() if some]
        parts += [f"{len(said.allow)} allowed once you approve it"] if said.allow else []
        parts += [f"not used: {name} ({why})" for name, why in said.unused.items()]
        detail = f"{one.path}: {one.fault or '; '.join(parts) or 'nothing that kode uses'}"
        yield Finding(
            what="other agents' settings", state="missing" if one.fault else "ok", detail=detail
        )
