"""The memory systems kode has: the only list of them. The settings and `kode.memory` read it."""

from collections.abc import Mapping

SYSTEMS: Mapping[str, str] = {
    "tiered": "kode.memory.tiered.system:Tiered",
    "notes": "kode.memory.notes.system:Notes",
    "vault": "kode.memory.vault.system:Vault",
    "journal": "kode.memory.journal.system:Journal",
}
"""Name → module:Class; the class is made with the memory section of the config. Only the chosen
system's module is imported."""
