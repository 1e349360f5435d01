"""What a memory is compared with: a file of notes that is searched by word, and no memory but the
whole history in the window.
"""

from collections import deque
from pathlib import Path

from bench.life.story import Fact
from kode.memory.contract import Injection, InjectReason, NullMemory

WINDOW_TOKENS = 200_000
CHARS_A_TOKEN = 4
MOST_LINES = 50


class Files(NullMemory):
    """`notes.md`: a line is added for each statement, found by word, and deleted on request."""

    name = "files"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "notes.md"

    def keep(self, fact: Fact, at: str) -> None:
        until = f" (until {fact.until})" if fact.until else ""
        with self._path.open("a") as file:
            file.write(f"{at} {fact.text}{until}\n")

    def drop(self, value: str) -> None:
        lines = [line for line in self._lines() if value not in line.split()]
        self._path.write_text("".join(f"{line}\n" for line in lines))

    def grep(self, words: str) -> str:
        """The newest lines that hold a word, whatever its case."""
        found = [line for line in self._lines() if words.lower() in line.lower()]
        return "\n".join(found[-MOST_LINES:])

    def _lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []


class Window(NullMemory):
    """All that was ever said goes along, as far as a window of 200,000 tokens holds it."""

    name = "window"

    def __init__(self) -> None:
        self._sessions: deque[tuple[str, int]] = deque()
        self.chars = 0
        self.fresh = ""
        """What was said in the last session: all before it has been read."""

    @property
    def since(self) -> str:
        """When the oldest session began that still fits."""
        return self._sessions[0][0] if self._sessions else ""

    def add(self, at: str, said: str) -> None:
        self.fresh = said
        self._sessions.append(("".join(filter(str.isdigit, at)), len(said)))
        self.chars += len(said)
        while self.chars > WINDOW_TOKENS * CHARS_A_TOKEN:
            self.chars -= self._sessions.popleft()[1]

    async def inject(self, reason: InjectReason) -> Injection:
        fresh, self.fresh = self.fresh, ""
        return Injection(system=fresh)
