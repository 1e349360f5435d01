"""Markdown of other agents as entries: each whole, in its order, with what it stood under."""

import re

from hypothesis import given
from hypothesis import strategies as st

from kode.memory.foreign import Entry
from kode.plugins.imports.memory.markdown import blocks, without_head

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
    return [block.text for block in blocks(markdown)]


def test_each_bullet_and_paragraph_is_an_entry_under_its_heading():
    found = texts(GUIDE)

    assert "It is written in Go\nand deployed by hand." in found
    assert "Testing: run `make test`\nbefore each commit\n- also the slow ones" in found
    assert "Testing: no mocks" in found
    assert "API: > quoted" in found


def test_a_leading_line_keeps_its_items_and_code_stays_whole():
    found = texts(GUIDE)

    assert "Testing: To build:\n```sh\nmake\n\nmake install\n```" in found
    assert "Testing: When deploying: ask Ann" in found
    assert "Testing: When deploying: then wait" in found


def test_headings_rules_and_comments_are_no_entries():
    found = "\n".join(texts(GUIDE))

    assert "not for the model" not in found
    assert "---\n" not in found.replace("|------|", "")
    assert "The project" not in found


def test_each_entry_names_the_line_it_begins_on():
    lines = GUIDE.split("\n")

    for block in blocks(GUIDE):
        first = block.bare.split("\n")[0]
        assert first in lines[block.line - 1]


def test_a_table_is_one_entry():
    assert "API:\n| verb | path |\n|------|------|\n| GET  | /v1  |" in texts(GUIDE)


def test_an_overlong_bullet_is_split_into_those_below_it():
    parts = [f"  - step {number} {'x' * 300}" for number in range(9)]
    found = blocks("\n".join(["- To release", *parts]))

    assert len(found) == 9
    assert found[3].text.startswith("To release: step 3 ")
    assert found[3].line == 5


def test_a_line_that_leads_nowhere_is_an_entry_by_itself():
    assert texts("Remember:\n\n## Next\n\ntext") == ["Remember:", "Next: text"]


def test_the_head_of_a_file_leaves_the_lines_their_numbers():
    head, body = without_head("---\nname: x\ntype: user\n---\n\nlikes tabs\n")

    assert "type: user" in head
    assert blocks(body)[0].line == 6


words = st.text("abc xyz.,`*_[]()#>|-", min_size=1, max_size=40)


@given(st.lists(words, max_size=30))
def test_no_word_of_a_text_is_lost(lines):
    """Of any Markdown: all that is not a heading, a rule or markup stands in an entry."""
    text = "\n".join(f"word{number} {line}" for number, line in enumerate(lines))

    found = "\n".join(texts(text)) + "\n".join(
        title for block in blocks(text) for title in block.headings
    )
    kept = set(re.findall(r"word\d+", found))
    headings = [line for line in text.split("\n") if line.startswith("#")]

    assert kept >= set(re.findall(r"word\d+", text)) - set(re.findall(r"word\d+", str(headings)))
    assert all(len(block.text) < Entry.MAX_CHARS + 100 for block in blocks(text) if "-" not in text)
