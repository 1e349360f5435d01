"""Records how the checks of a turn ended, by exit status; never by what the model says.
`permissions/shell/programs.toml` lists the commands that check a project."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kode.events import Check, Checked

NOT_RUN = (126, 127)
"""bash's exit statuses for a program that it could not run or find."""


@dataclass
class Evidence:
    """The checks and edits of a turn, in order."""

    edits: int = 0
    _checks: dict[str, tuple[int | None, int]] = field(default_factory=dict)
    """Command → exit status of its last run, and the number of edits before it."""

    def note(self, checks: Iterable[tuple[str, int | None]], files_changed: bool) -> None:
        """Records a call that ran: its checks with their exit statuses (None: not known), and
        whether it changed files."""
        self.edits += files_changed
        for command, status in checks:
            if status in NOT_RUN:
                continue
            self._checks.pop(command, None)
            self._checks[command] = (status, self.edits)

    def checks(self) -> tuple[Check, ...]:
        """Each check whose end is known, by its last run, in that order."""
        return tuple(
            Check(
                command=" ".join(command.split()),
                passed=status == 0,
                after_last_edit=after == self.edits,
            )
            for command, (status, after) in self._checks.items()
            if status is not None
        )

    def checked(self) -> Checked:
        """What the checks say of the files as the turn leaves them."""
        since = [status for status, after in self._checks.values() if after == self.edits]
        if any(since):
            return "failed"
        if 0 in since:
            return "passed"
        return "unknown" if since or not self.edits else "not_since_last_edit"
