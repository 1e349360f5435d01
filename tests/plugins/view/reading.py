"""What a page says to a person, and what it holds besides."""

import html
import re

from selectolax.lexbor import LexborHTMLParser


def words_of(page: str) -> str:
    """What a person reads: no markup, white space folded."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def assert_harmless(page: str) -> None:
    """Nothing of the hostile text became markup, and nothing of it is unseen."""
    for node in LexborHTMLParser(page).root.traverse():
        assert node.tag not in ("script", "img", "iframe", "object", "base")
        for name, value in node.attributes.items():
            assert not name.startswith("on")
            assert name != "style"
            assert name not in ("href", "src", "action") or value[:1] in ("/", "#", "d")
    assert "<h1>owned" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    assert "&lt;script&gt;" in page
