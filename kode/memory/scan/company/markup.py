# ruff: noqa: E501  a pattern is read whole, phrase by phrase
"""Marks that pass a text off as the system's or another speaker's."""

from kode.memory.scan.order import Order, order

ORDERS: tuple[Order, ...] = (
    order(
        "chat markup",
        "",
        r"^\s{0,3}###\s*(?:instruction|response)\s*:",
        signs=("###",),
    ),
    order(
        "chat markup",
        "assi huma >",
        r"(?<![^\n])(?:human|assistant)\s*:\s*\S",
    ),
    order(
        "chat markup",
        "",
        r"(?:\\n|\\r)\s*(?:human|assistant|system|user)\s*:",
        signs=("\\n", "\\r"),
    ),
    order(
        "chat markup",
        "begi end star > memo cont note fact data docu untr inpu prom user",
        r"(?:(?<![^\n])|(?<=[-=*#_\[])|(?<=[-=*#_\[]\s))(?:end|begin|start) (?:of )?(?:the )?(?:memory|memories|context|notes?|"
        r"facts?|data|documents?|untrusted|input|prompt|user (?:input|data|message))\b\s*(?:[-=*#_]{2,}|\]|[:.]?\s*(?:system|"
        r"assistant|new|instructions?)\b)",
    ),
    order(
        "chat markup",
        "",
        r"</(?:memory|memories|context|data|reference|document|untrusted|fence|facts?|buffer|notes?|system|prompt)[-_]\w+\s*>|"
        r"^\s*<(user|human)>[^<]{1,200}</(?:user|human)>",
        signs=("</",),
    ),
)
