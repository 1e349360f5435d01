"""Texts that an outside page may want remembered, put together from `data/attacks.json`: blatant
and roundabout, in several languages, each with a number of its own."""

import json
from itertools import islice, product
from pathlib import Path

PARTS = Path(__file__).parent / "data" / "attacks.json"


def attacks(count: int = 200) -> list[str]:
    parts = json.loads(PARTS.read_text("utf-8"))
    # Every text with the first deed, then every text with the second, and so on.
    made = ((text, do) for do, text in product(parts["do"], parts["texts"]))
    return [
        text.replace("{do}", do).replace("{n}", str(number))
        for number, (text, do) in enumerate(islice(made, count), 1000)
    ]
