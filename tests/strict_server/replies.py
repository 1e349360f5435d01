"""What the server says: a scripted reply in its parts, which every format is made of; the seals by
which it knows its own words again, in another process too; and what it has said so far, to compare
with what comes back."""

import base64
import hashlib
import hmac
import itertools
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.scripted_server import arguments_text

Reply = dict[str, Any]
Key = tuple[Any, ...]

KEYS = frozenset("text thinking calls parts extra stop match model delay_s wire".split())
COUNTER = itertools.count(1)
"""Over all servers of a process, so that no two ids are the same."""


@dataclass(frozen=True)
class Part:
    """`kind` is thinking, text, call or search."""

    kind: str
    text: str = ""
    name: str = ""
    """Of the tool called."""
    id: str | None = None
    results: tuple[Reply, ...] = ()
    extra: Reply = field(default_factory=dict)


def parts_of(reply: Reply) -> list[Part]:
    """In order: thinking, text, calls; or as `parts` says."""
    if unknown := sorted(set(reply) - KEYS):
        raise ValueError(f"a reply has {unknown}, which this server does not know")
    given = list(reply.get("parts", ()))
    given += [{name: reply[name]} for name in ("thinking", "text") if reply.get(name)]
    given += [{"call": call} for call in reply.get("calls", ())]
    return [_part(part, reply.get("extra", {}) | part.get("extra", {})) for part in given]


def _part(given: Reply, extra: Reply) -> Part:
    if call := given.get("call"):
        extra = extra | call.get("extra", {})
        return Part("call", arguments_text(call), call["name"], call.get("id"), extra=extra)
    if search := given.get("search"):
        results = tuple(search.get("results", ()))
        return Part("search", search["query"], results=results, extra=extra)
    (kind,) = {"thinking", "text"} & given.keys()
    return Part(kind, given[kind], extra=extra)


def stop_of(reply: Reply, parts: list[Part]) -> str:
    """end, tool_calls, length, refusal, pause_turn, failed."""
    asked = any(part.kind == "call" for part in parts)
    return str(reply.get("stop") or ("tool_calls" if asked else "end"))


def tokens_of(parts: list[Part], kind: str = "") -> int:
    """Said in all, or by parts of a kind: four bytes each."""
    said = [p for p in parts if kind in ("", p.kind)]
    return sum(len(f"{p.text}{p.name}".encode()) // 4 + 1 for p in said)


def new_id(prefix: str, length: int = 24) -> str:
    return prefix + hashlib.sha256(b"%d" % next(COUNTER)).hexdigest()[:length]


# ── seals ────────────────────────────────────────────────────────────────────────────────────

SECRET = b"strict server"


def compact(value: Any) -> str:
    """JSON in one form, with the order of keys as it came: vendors read a prefix as text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def digest(*values: Any) -> str:
    return hashlib.sha256(compact(values).encode()).hexdigest()[:16]


def seal(prefix: str = "", /, **said: Any) -> str:
    """Opaque text that holds what was said and cannot be made up."""
    data = compact(said).encode()
    return prefix + base64.b64encode(hmac.digest(SECRET, data, "sha256")[:12] + data).decode()


def unseal(text: Any, prefix: str = "", /) -> dict[str, Any] | None:
    """What a seal says; None for text that is none."""
    try:
        whole = base64.b64decode(text.removeprefix(prefix), validate=True)
    except (ValueError, AttributeError):
        return None
    mac, data = whole[:12], whole[12:]
    is_own = mac == hmac.digest(SECRET, data, "sha256")[:12] and text.startswith(prefix)
    return json.loads(data) if is_own else None


# ── what was said ────────────────────────────────────────────────────────────────────────────


@dataclass
class Memory:
    """Grows with every reply."""

    sent: dict[Key, list[tuple[Reply, Reply]]] = field(default_factory=lambda: defaultdict(list))
    """By what tells a block or item from others: as it was sent, and without the fields that the
    script added."""
    needs: dict[str, str] = field(default_factory=dict)
    """Id of a Responses item → the id of the reasoning that it may not be without."""
    paused: set[Key] = field(default_factory=set)
    """Blocks of replies that ended with `pause_turn`."""
    soft_faults: list[str] = field(default_factory=list)
    """What a vendor takes, and is worse for: see the package."""

    def keep(self, key: Key, whole: Reply, plain: Reply) -> None:
        self.sent[key].append((whole, plain))

    def known(self, key: Key, given: Reply, where: str) -> Reply:
        """What to check in place of what came back: its plain form where it came back unchanged.
        A change is noted."""
        said = self.sent.get(key)
        if not said:
            return given
        for whole, plain in said:
            if whole == given:
                return plain
        whole = said[-1][0]
        changed = [n for n in {**whole, **given} if whole.get(n, ...) != given.get(n, ...)]
        self.soft_faults.append(f"{where}: {sorted(changed)} changed, lost or added")
        return given
