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
    own = value.get("own")
    if own is not None:
        plain = mask({key: v for key, v in value.items() if key != "own"})
        # A part of which a word is masked has no form that its provider would know again.
        same = _is_clean(own) and all(value[key] == v for key, v in plain.items())
        if same:
            return value
        lost: Any = {} if value.get("type") == "server_item" else None
        return {key: lost if key == "own" else plain[key] for key in value}
    is_call = value.get("type") == "tool_call"
    found = {
        key: v
        if not v or key in _NOT_MASKED or not isinstance(v, _HOLDS_TEXT)
        else mask(v)
        if not isinstance(v, str)
        else _masked_arguments(v)
        if is_call and key == "arguments"
        else redact(v)
        for key, v in value.items()
    }
    if value.get("type") == "thinking" and found.get("text") != value.get("text"):
        # The signature covers the original text; a part without one is never sent back.
        found["signature"] = ""
    return value if all(map(operator.is_, found.values(), value.values())) else found


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


def _masked_arguments(text: str) -> str:
    """Masks the arguments of a call, keeping a JSON object: escapes in it may hide its values."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return redact(text)
    found = redact_values(value)
    if found != value:
        text = json.dumps(found, ensure_ascii=False)
    # Recognizable only beside its name: `"password": "..."`.
    return redact(text)
