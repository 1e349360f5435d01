"""Records which checks a turn ran, from the exit status of commands; never from what the model
says. `permissions/shell/programs.toml` lists the commands that check a project."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kode.events import Check

_CLAIM = re.compile(
    r"\b(tests?|suite|checks?|linter|lint|type ?check(s|er|ing)?|build|pytest|mypy|ruff)\b"
    r"[^.!?\n]{0,40}\b(pass(es|ed|ing)?|green|succeed(s|ed)?|clean)\b",
    re.IGNORECASE,
)
_NO_CLAIM = re.compile(
    r"\b(should|would|could|may|might|must|will|until|once|if|whether|when|make|makes|so that|not|"
    r"no|never|cannot)\b|n't\b",
    re.IGNORECASE,
)


@dataclass
class Evidence:
    """The checks and edits of a turn, in order."""

    edits: int = 0
    _checks: dict[str, tuple[bool, int]] = field(default_factory=dict)
    """Command → exit status of its last run, and the number of edits before it."""

    def note(self, checks: Iterable[str], exit_status: int | None, files_changed: bool) -> None:
        """Records a call that ran: the checks its exit status covers, and whether it changed
        files."""
        self.edits += files_changed
        if exit_status is not None:
            for command in checks:
                self._checks.pop(command, None)
                self._checks[command] = (exit_status == 0, self.edits)

    def checks(self) -> tuple[Check, ...]:
        """Each check by its last run, in that order."""
        return tuple(
            Check(
                command=" ".join(command.split()),
                passed=passed,
                after_last_edit=after == self.edits,
            )
            for command, (passed, after) in self._checks.items()
        )


def claims_more(answer: str, checks: Sequence[Check]) -> bool:
    """Whether an answer claims a passing check although none passed after the turn's last edit. A
    heuristic on words: it adds a note and decides nothing."""
    if any(check.passed and check.after_last_edit for check in checks):
        return False
    return any(
        _CLAIM.search(sentence) and not _NO_CLAIM.search(sentence)
        for sentence in re.split(r"[.!?\n]+", answer)
    )
