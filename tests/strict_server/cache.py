"""What a prompt costs, by prefix. A token is four bytes of compact JSON."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

LOOKBACK = 20
"""Blocks before a mark in which Anthropic looks for an earlier prefix."""
STEP = 128
"""Tokens in which OpenAI's automatic cache counts before gpt-5.6; elsewhere 64 (DeepSeek) or so. It
forgets nothing within a day."""
LIVES_S = {"5m": 300, "30m": 1_800, "1h": 3_600}
"""Seconds for which a prefix is known since it was written or last read, by its mark."""

Prefixes = dict[str, tuple[int, float]]
"""Those that ended at a mark: the seconds that it lives, and when it ends."""


@dataclass(frozen=True)
class Piece:
    """A part of the prompt in the order in which the model reads it."""

    text: str
    mark: str = ""
    """"5m", "1h", "30m", ...: a cache mark at its end, that long; "": none."""


@dataclass(frozen=True)
class Cost:
    """Tokens of a prompt."""

    total: int
    cached: int = 0
    written: int = 0
    long: int = 0
    """Of those written: for the longer, dearer time."""

    @property
    def new(self) -> int:
        return self.total - self.cached - self.written


@dataclass
class Cache:
    """Of all models of one server."""

    now_s: float = 0
    """The time, which only a test moves."""
    marked: dict[str, Prefixes] = field(default_factory=lambda: defaultdict(dict))
    """By model, or by model and key."""
    steps: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def by_marks(
        self, owner: str, pieces: Sequence[Piece], least: int, lookback: int | None = LOOKBACK
    ) -> Cost:
        """Reads the longest prefix that ended at an earlier mark, no further than `lookback` pieces
        before a mark of this one, and writes up to the last mark; up to the last one of an hour at
        its price. A mark within what is read writes nothing. Nothing below `least` tokens."""
        hashes, tokens = _cumulative(pieces)
        total = tokens[-1] if tokens else 0
        marks = [at for at, piece in enumerate(pieces) if piece.mark and tokens[at] >= least]
        known = self.marked[owner]
        live = {name: life for name, (life, end_s) in known.items() if end_s >= self.now_s}
        read = -1
        for mark in marks:
            first = 0 if lookback is None else max(0, mark - lookback + 1)
            read = max([read, *(at for at in range(first, mark + 1) if hashes[at] in live)])
        cached = tokens[read] if read >= 0 else 0
        for at in {read, *marks} - {-1}:
            if life_s := LIVES_S[pieces[at].mark] if at > read else live.get(hashes[at], 0):
                known[hashes[at]] = life_s, self.now_s + life_s
        if not marks:
            return Cost(total)
        written = max(0, tokens[marks[-1]] - cached)
        longest = [at for at in marks if pieces[at].mark == "1h"]
        long = max(0, tokens[longest[-1]] - cached) if longest else 0
        return Cost(total, cached, written, min(long, written))

    def by_steps(self, owner: str, pieces: Sequence[Piece], step: int = STEP) -> Cost:
        """The automatic cache: any common beginning, in whole steps, from 1,024 tokens on."""
        text = "".join(piece.text for piece in pieces).encode()
        known = self.steps[owner]
        running = hashlib.sha256()
        cached = 0
        for end in range(step, len(text) // 4 + 1, step):
            running.update(text[(end - step) * 4 : end * 4])
            name = running.hexdigest()
            if name in known and cached == end - step:
                cached = end
            known.add(name)
        return Cost(len(text) // 4, cached if cached >= 1024 else 0)


def _cumulative(pieces: Sequence[Piece]) -> tuple[list[str], list[int]]:
    running = hashlib.sha256()
    hashes, tokens, size = [], [], 0
    for piece in pieces:
        data = piece.text.encode()
        running.update(len(data).to_bytes(8, "big") + data)
        size += len(data)
        hashes.append(running.hexdigest())
        tokens.append(size // 4)
    return hashes, tokens
