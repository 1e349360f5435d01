"""Orders known by the company their words keep, where no fixed phrase would do.

Each pattern joins a few kinds of words (to send, what is secret, where all can see it) within one
sentence, however they are put. What they have in common with facts about software are the words;
what facts lack is the order: so most begin where an order does, at the start of a clause.
The phrases that need no company are in `phrases`; what excuses an order is
`injection`. One module a kind of order; a further pattern goes to the end of its tuple.
"""

from kode.memory.scan.company import (
    approval,
    commands,
    concealments,
    exfiltration,
    markup,
    overrides,
)
from kode.memory.scan.order import Order

ORDERS: tuple[Order, ...] = (
    *overrides.ORDERS,
    *concealments.ORDERS,
    *approval.ORDERS,
    *exfiltration.ORDERS,
    *commands.ORDERS,
    *markup.ORDERS,
)
