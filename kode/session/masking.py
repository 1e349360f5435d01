"""Masks credentials in what a session stores: on disk, and in the digests of it."""

import json
import operator
from typing import Any

from kode.credentials import redact, redact_values

_NOT_MASKED = frozenset(
    "type id at role stop name event outcome call_id signature redacted origin model kept_from "
    "before to of media_type kept_in".split()
)
"""Names and ids that other entries and the provider refer to."""

_HOLDS_TEXT = (str, list, tuple, dict)


def mask(value: Any) -> Any:
    """The JSON value of an entry, or part of one, with credentials masked: the same object if there
    are none. Idempotent."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | tuple):
        items = [mask(item) if isinstance(item, _HOLDS_TEXT) else item for item in value]
        return value if all(map(operator.is_, items, value)) else items
    if not isinstance(value, dict):
        return value
    kind, own = value.get("type"), value.get("own")
    if own is not None:
        plain = mask({key: v for key, v in value.items() if key != "own"})
        # A part of which a word is masked has no form that its provider would know again.
        if _is_clean(own) and all(value[key] == v for key, v in plain.items()):
            return value
        lost: Any = {} if kind == "server_item" else None
        return {key: lost if key == "own" else plain[key] for key in value}
    masked = {
        key: v
        if not v or key in _NOT_MASKED or not isinstance(v, _HOLDS_TEXT)
        else _mask_arguments(v)
        if kind == "tool_call" and key == "arguments" and isinstance(v, str)
        else mask(v)
        for key, v in value.items()
    }
    if kind == "thinking" and masked.get("text") != value.get("text"):
        # The signature covers the original text; a part without one is never sent back.
        masked["signature"] = ""
    return value if all(map(operator.is_, masked.values(), value.values())) else masked


def _is_clean(value: Any) -> bool:
    """Whether nothing in a provider's own form looks like a credential; what it encrypted or signed
    is not looked at."""
    if isinstance(value, str):
        return len(value) < 8 or redact(value) == value
    if isinstance(value, list | tuple):
        return all(map(_is_clean, value))
    if isinstance(value, dict):
        return all(_is_clean(item) for key, item in value.items() if key not in _OPAQUE)
    return True


_OPAQUE = frozenset(
    "id call_id signature encrypted_content encrypted_index data thought_signature "
    "thoughtSignature".split()
)


def _mask_arguments(text: str) -> str:
    """Masks the arguments of a call, keeping a JSON object: escapes in it may hide its values."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return redact(text)
    masked = redact_values(value)
    if masked != value:
        text = json.dumps(masked, ensure_ascii=False)
    # Recognizable only beside its name: `"password": "..."`.
    return redact(text)
