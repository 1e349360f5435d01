"""What may never be remembered: `scan`, a pure function: a text in, the first reason to refuse it
out; and `check`, which raises it.

    finding.py     read this first: disguises undone, then the texts put to all the others
    characters.py  hidden, bidirectional and look-alike characters; folding
    injection.py   orders to a model, and what excuses one
    order.py       a pattern of an order, and when it is worth trying
    phrases/       patterns that need their very words        company/  and words in company
    frames.py      patterns over the senses of words          senses.py the words of each sense
    likeness.py    how much a sentence is like an order: a learnt model (likeness.json)
    languages.py   orders in languages other than English
    sentences.py   where sentences end, and the keys of their words

Credentials are `kode.credentials`.
"""

from kode.memory.scan.finding import MAX_FACT_CHARS, MAX_TEXT_CHARS, Finding, check, scan

__all__ = ["MAX_FACT_CHARS", "MAX_TEXT_CHARS", "Finding", "check", "scan"]
