"""Phrases that are orders wherever they stand: the patterns, one module a kind of order.

    overrides      forget what you were told          exfiltration   send that away
    concealments   hide it from the user              commands       run this
    approval       skip the gate                      markup         the system says so

Orders that no fixed phrase would find are in `company`. What is done with a pattern is
`injection`. A further pattern goes to the end of its tuple.
"""

from kode.memory.scan.order import Order
from kode.memory.scan.phrases import (
    approval,
    commands,
    concealments,
    exfiltration,
    markup,
    overrides,
)

PHRASES: tuple[Order, ...] = (
    *overrides.PHRASES,
    *concealments.PHRASES,
    *approval.PHRASES,
    *exfiltration.PHRASES,
    *commands.PHRASES,
    *markup.PHRASES,
)

CORE: tuple[Order, ...] = (
    *overrides.PHRASES[:2],
    concealments.PHRASES[0],
    concealments.PHRASES[4],
)
"""The few that are also tried on a text with its digits read as letters, reversed, and so on."""
