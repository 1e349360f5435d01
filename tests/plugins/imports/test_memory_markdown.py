"""Markdown of other agents as entries: each whole, in its order, with what it stood under."""

import re

from hypothesis import given, strategies as st

from kode.plugin import ForeignReader
from kode.plugins.imports.memory import read_blocks

GUIDE = """\
# The project

It is written in Go
and deployed by hand.

## Testing

- run `make test`
  before each commit
  - also the slow ones
- no mocks

To build:

```sh
make

make install
```

When deploying:
1. ask Ann
2. then wait

<!-- not for the model -->

---

## API

| verb | path |
|------|------|
| GET  | /v1  |

> quoted
"""


def texts(markdown):
    return [block.text for block in read_blocks(markdown)]


def test_each_bullet_paragraph_and_block_is_an_entry():
    assert texts(GUIDE) == [
        "It is written in Go\nand deployed by hand.",
        "Testing: run `make test`\nbefore each commit\n- also the slow ones",
        "Testing: no mocks",
        "Testing: To build:\n```sh\nmake\n\nmake install\n```",
        "Testing: When deploying: ask Ann",
        "Testing: When deploying: then wait",
        "API:\n| verb | path |\n|------|------|\n| GET  | /v1  |",
        "API: > quoted",
    ]


def test_an_overlong_bullet_is_split_into_those_below_it():
    parts = [f"  - step {number} {'x' * 300}" for number in range(9)]
    found = [*read_blocks("\n".join(["- To release", *parts]))]

    assert len(found) == 9
    assert found[3].text.startswith("To release: step 3 ")
    assert found[3].line == 5


words = st.text("abc xyz.,`*_[]()#>|-", min_size=1, max_size=40)


@given(st.lists(words, max_size=30))
def test_no_word_of_a_text_is_lost(lines):
    """Of any Markdown: all that is not a heading, a rule or markup stands in an entry."""
    lines = [f"word{number} {line}" for number, line in enumerate(lines)]
    blocks = [*read_blocks("\n".join(lines))]

    texts = [*(block.text for block in blocks), *(str(block.headings) for block in blocks)]
    of_headings = re.findall(r"word\d+", "\n".join(line for line in lines if line[0] == "#"))

    missing = set(re.findall(r"word\d+", str(lines))) - set(re.findall(r"word\d+", str(texts)))
    assert missing <= set(of_headings)
    limit = ForeignReader.Entry.MAX_CHARS + 100
    assert all(len(block.text) < limit for block in blocks if "-" not in str(lines))
