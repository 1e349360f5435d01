"""Lines as a person writes them: without a checksum."""

import re


def unsealed(text: str) -> str:
    """The same lines, each without its `sum`."""
    return re.sub(r',"sum":"[0-9a-f]{8}"(?=}$)', "", text, flags=re.MULTILINE)
