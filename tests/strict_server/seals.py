"""What the server signs, so that it knows its own words again, in another process too: signatures
of thinking, encrypted reasoning, thought signatures."""

import base64
import hashlib
import hmac
import json
from typing import Any

KEY = b"strict server"


def compact(value: Any) -> str:
    """JSON in one form, with the order of keys as it came: vendors read a prefix as text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def digest(*values: Any) -> str:
    return hashlib.sha256(compact(values).encode()).hexdigest()[:16]


def seal(prefix: str = "", /, **said: Any) -> str:
    """Opaque text that holds what was said and cannot be made up."""
    data = compact(said).encode()
    mac = hmac.digest(KEY, data, "sha256")[:12]
    return prefix + base64.b64encode(mac + data).decode()


def unseal(text: Any, prefix: str = "", /) -> dict[str, Any] | None:
    """What a seal says; None for text that is none."""
    try:
        if not text.startswith(prefix):
            return None
        whole = base64.b64decode(text[len(prefix) :], validate=True)
    except (ValueError, AttributeError):
        return None
    mac, data = whole[:12], whole[12:]
    if not hmac.compare_digest(mac, hmac.digest(KEY, data, "sha256")[:12]):
        return None
    said: dict[str, Any] = json.loads(data)
    return said
