"""Words that exclude each other, and words of quantity."""

from __future__ import annotations

SCALES = """
brevity short brief concise terse succinct crisp | long lengthy verbose wordy detailed elaborate
enabled enable active activate activated | disabled disable inactive deactivate deactivated
allowed allow permit permitted permissible | forbidden forbid prohibit ban banned disallow
brightness dark | light bright
bound atmost max maximum limit cap ceiling | atleast min minimum floor
"""
"""Two ends of one scale a line: the negation of an end is the other end. The first word names
the scale."""

OPPOSITES = """
up down
on off
in out
open close
start stop
begin end
read write
add remove
create delete
push pull
upload download
import export
send receive
encrypt decrypt
increase decrease
request answer
client server
source target
first last
old new
upper lower
left right
top bottom
before after
source destination
full partial
whole part
general specific
public private
internal external
local remote
global local
explicit implicit
automatic manual
synchronous asynchronous
required optional
accept reject
lock unlock
mount unmount
install uninstall
subscribe unsubscribe
main secondary
primary secondary
current previous
incoming outgoing
inbound outbound
ascending descending
horizontal vertical
frontend backend
development production
staging production
fast slow
simple complex
small big
listen connect
expire refresh
"""
"""Pairs of which a fact means one: a text with one and a text with the other differ."""

NUMBERS: dict[str, int] = {
    "zero": 0, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14,
    "fifteen": 15, "sixteen": 16, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "ninety": 90, "hundred": 100, "thousand": 1000, "dozen": 12, "noon": 12,
    "midnight": 0,
}  # fmt: skip
"""Number words; `one` is left out because it is a pronoun as often as a number."""

UNITS: dict[str, tuple[str, float]] = {
    "ms": ("time", 0.001), "millisecond": ("time", 0.001),
    "s": ("time", 1), "second": ("time", 1), "sec": ("time", 1),
    "minute": ("time", 60), "min": ("time", 60), "hour": ("time", 3600), "hr": ("time", 3600),
    "h": ("time", 3600), "day": ("time", 86400), "week": ("time", 604800), "month": ("month", 1),
    "year": ("month", 12),
    "byte": ("size", 1), "kb": ("size", 1e3), "kilobyte": ("size", 1e3), "kib": ("size", 1024),
    "mb": ("size", 1e6), "megabyte": ("size", 1e6), "mib": ("size", 1048576),
    "gb": ("size", 1e9), "gigabyte": ("size", 1e9), "gib": ("size", 1073741824),
    "tb": ("size", 1e12), "terabyte": ("size", 1e12), "tib": ("size", 1099511627776),
    "percent": ("%", 1), "%": ("%", 1),
    "eur": ("eur", 1), "euro": ("eur", 1), "€": ("eur", 1),
    "usd": ("usd", 1), "dollar": ("usd", 1), "$": ("usd", 1),
}  # fmt: skip
"""Unit → what it measures, and its size in the smallest unit of that measure."""
