"""What one server has said, to compare with what comes back."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

Key = tuple[Any, ...]


@dataclass
class Memory:
    """Grows with every reply."""

    sent: dict[Key, list[tuple[dict[str, Any], dict[str, Any]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By what tells a block or item from others: as it was sent, and without the fields that the
    script added."""
    needs: dict[str, str] = field(default_factory=dict)
    """Id of a Responses item → the id of the reasoning that it may not be without."""
    paused: set[Key] = field(default_factory=set)
    """Blocks of replies that ended with `pause_turn`."""
    soft_faults: list[str] = field(default_factory=list)
    """What a vendor takes, and is worse for: see the package."""

    def keep(self, key: Key, whole: dict[str, Any], plain: dict[str, Any]) -> None:
        self.sent[key].append((whole, plain))

    def known(self, key: Key, given: dict[str, Any], where: str) -> dict[str, Any]:
        """What to check in place of what came back: its plain form where it came back unchanged.
        A change is noted."""
        said = self.sent.get(key)
        if not said:
            return given
        for whole, plain in said:
            if whole == given:
                return plain
        whole = said[-1][0]
        lost = sorted(set(whole) - set(given))
        changed = sorted(name for name in given if name in whole and whole[name] != given[name])
        added = sorted(set(given) - set(whole))
        found = {"lost": lost, "changed": changed, "added": added}
        self.soft_faults.append(f"{where}: { ({k: v for k, v in found.items() if v}) }")
        return given
