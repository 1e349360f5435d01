"""What looks like a credential in a text: found, and masked. A pure function of the text.

The session log masks with it what goes to disk, memory refuses what holds one. It judges only the
text as written; undoing disguises (invisible characters, look-alike letters) is the work of
`kode.memory.scan`.

Kinds of rules: tokens known by their prefix (the table is `tokens`) and private key blocks, in
`prefixed`; tokens and passwords known by their shape or a word near them, in `shapes`; passwords in
URLs and headers, and assignments (`password = ...`, `the api key is ...`) whose value looks random,
in `assigned`. What a value must look like to count is `values`. Hashes, UUIDs, public keys, git
revisions, placeholders and references to a vault or the environment are not credentials.

Every rule starts from a plain `str.find` and matches forward with one character class at a time,
so that the time is linear in the text, whatever the text is.
"""

from kode.credentials.assigned import assignments, headers, url_passwords
from kode.credentials.prefixed import prefixed_tokens, private_keys
from kode.credentials.shapes import rarer_shapes, shaped_tokens
from kode.credentials.tokens import MIN_TOKEN_CHARS
from kode.credentials.values import Credential, is_placeholder, looks_random

__all__ = ["Credential", "find", "is_placeholder", "looks_random", "redact"]


def find(text: str) -> list[Credential]:
    """The credentials in a text, in order, without overlaps. Positions are in characters."""
    if len(text) < 8:
        return []
    # The only character whose lower case is longer would shift every position after it.
    lowered = text.replace("İ", "I").lower()
    words = [word for word in text.split() if len(word) >= MIN_TOKEN_CHARS]
    found = [
        *private_keys(text),
        *prefixed_tokens(text, words),
        *shaped_tokens(text),
        *rarer_shapes(text, lowered, words),
        *url_passwords(text),
        *headers(text, lowered),
        *assignments(text, lowered),
    ]
    return _without_overlaps(found)


def redact(text: str) -> str:
    """The text with every credential replaced by `[redacted KIND]`. Doing it again changes
    nothing: it goes on until a pass finds no more."""
    for _ in range(8):
        found = find(text)
        if not found:
            break
        pieces = []
        at = 0
        for credential in found:
            pieces += [text[at : credential.start], f"[redacted {credential.kind}]"]
            at = credential.end
        text = "".join([*pieces, text[at:]])
    return text


def _without_overlaps(found: list[Credential]) -> list[Credential]:
    """In order; of two that overlap the one that starts first, then the longer one."""
    kept: list[Credential] = []
    for credential in sorted(found, key=lambda c: (c.start, -c.end)):
        if not kept or credential.start >= kept[-1].end:
            kept.append(credential)
        elif credential.end > kept[-1].end:
            first = kept[-1]
            kept[-1] = Credential(first.start, credential.end, first.kind)
    return kept
