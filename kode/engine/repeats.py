"""Detects a model that runs in circles: the same calls with the same results.

A repeated call counts as long as nothing new happens in the turn: no new call, no other result. So
a test that fails the same way after each edit is not a circle, and two alternating calls are one.
"""

from collections import Counter
from dataclasses import dataclass, field

from kode.errors import ProviderError
from kode.messages import ToolCall

REMIND_AT = 3  # a second call can be a check; a third is a circle
END_AT = 5  # the reminders of the third and fourth did not help

REMINDER = (
    "[Call {count} of {name} with the same arguments and the same result, and nothing new in "
    "between: another one will not help. Use what the result says, change the arguments, take "
    "another tool, or give your answer. To wait for something, wait inside one command.]"
)


@dataclass
class Repeats:
    """Counts the calls of one turn."""

    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """How often each (name, arguments, result) occurred since something new happened."""
    circling: str = ""
    """The tool that was called too often."""

    def note(self, call: ToolCall, result: str) -> str:
        """Counts a call with its result. Returns a warning to add for the model, or ""."""
        key = (call.name, call.arguments, result)
        if key not in self.counts:
            self.counts = Counter(dict.fromkeys(self.counts, 1))
        self.counts[key] += 1
        count = self.counts[key]
        if count >= END_AT:
            self.circling = call.name
        return REMINDER.format(count=count, name=call.name) if count >= REMIND_AT else ""

    def check(self) -> None:
        """Raises: ProviderError once a call was repeated too often."""
        if self.circling:
            raise ProviderError(
                f"The model called {self.circling} {END_AT} times with the same arguments and the "
                "same result, and the turn was ended. Ask for a smaller step or in other words, or "
                "use another model."
            )
