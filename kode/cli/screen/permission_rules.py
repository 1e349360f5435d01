"""The permission rules that count, and the answers that can be removed and restored."""

from collections.abc import Callable, Mapping, Sequence

from kode.cli.screen.lines import one_line
from kode.errors import UserError
from kode.permissions.approvals import StandingRule

CHANGES: Mapping[str, tuple[str, str]] = {
    "remove": ("remove ID ...", "ask again"),
    "restore": ("restore ID ...", "allow again what you removed"),
}


def rule_rows(
    standing: Sequence[StandingRule], origins: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """(id, rule, where it is from) of each; `origins`: of each setting."""
    rows = []
    for rule in standing:
        setting = origins.get(f"permissions.{rule.effect}", "a flag or the config")
        source = {
            "settings": setting,
            "session": "your answer, in this session",
            "project": "your answer, in this project",
        }[rule.source]
        since = f" {rule.at[:10]}" if rule.at else ""
        state = "removed: " if rule.removed else ""
        rows.append(
            (rule.id, f"{state}{rule.effect} {one_line(str(rule.rule))}", f"{source}{since}")
        )
    return rows


def change_rules(command: str, words: Sequence[str], change: Callable[..., None]) -> str:
    """Carries out `remove` or `restore` by `Gate.change_approvals`; returns what was done,
    with its undo. Raises: UserError for other words; KodeError."""
    match words:
        case ["remove" | "restore" as verb, _, *_]:
            for name in words[1:]:
                change(**{verb: name})
            back = "restore" if verb == "remove" else "remove"
            state = "asked again" if verb == "remove" else "allowed again"
            return f"{' '.join(words[1:])}: {state} · undo: {command} {back} {' '.join(words[1:])}"
    raise UserError("Say " + "; ".join(": ".join(row) for row in CHANGES.values()) + ".")
