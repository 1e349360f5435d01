"""Markdown of other agents as entries: each whole, in its order, with what it stood under."""

import re

from hypothesis import given
from hypothesis import strategies as st

from kode.plugin import ForeignReader
from kode.plugins.imports.markdown import read_blocks, split_front_matter

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


def test_each_entry_names_the_line_it_begins_on():
    lines = GUIDE.split("\n")
    for block in read_blocks(GUIDE):
        assert block.bare.split("\n")[0] in lines[block.line - 1]


def test_an_overlong_bullet_is_split_into_those_below_it():
    parts = [f"  - step {number} {'x' * 300}" for number in range(9)]
    found = [*read_blocks("\n".join(["- To release", *parts]))]

    assert len(found) == 9
    assert found[3].text.startswith("To release: step 3 ")
    assert found[3].line == 5


def test_the_head_of_a_file_leaves_the_lines_their_numbers():
    head, body = split_front_matter("---\nname: x\ntype: user\n---\n\nlikes tabs\n")

    assert "type: user" in head
    assert next(read_blocks(body)).line == 6


words = st.text("abc xyz.,`*_[]()#>|-", min_size=1, max_size=40)


@given(st.lists(words, max_size=30))
def test_no_word_of_a_text_is_lost(lines):
    """Of any Markdown: all that is not a heading, a rule or markup stands in an entry."""
    text = "\n".join(f"word{number} {line}" for number, line in enumerate(lines))

    found = "\n".join(texts(text)) + "\n".join(
        title for block in read_blocks(text) for title in block.headings
    )
    kept = set(re.findall(r"word\d+", found))
    headings = [line for line in text.split("\n") if line.startswith("#")]

    assert kept >= set(re.findall(r"word\d+", text)) - set(re.findall(r"word\d+", str(headings)))
    assert all(
        len(block.text) < ForeignReader.Entry.MAX_CHARS + 100
        for block in read_blocks(text)
        if "-" not in text
    )
