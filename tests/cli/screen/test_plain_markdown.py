from hypothesis import given
from hypothesis import strategies as st

from kode.cli.screen.render import plain_markdown

TABLE = """Before

| file | change |
|------|:------:|
| a.py | one line |
| b.py | `x | y` |

After | the table
"""


def test_each_cell_stands_on_its_own_line_with_its_heading():
    text = plain_markdown(TABLE)

    assert text.startswith("Before\n\nfile: a.py\nchange: one line\n\nfile: b.py\n")
    assert text.rstrip().endswith("After | the table")
    assert "---" not in text


@given(st.text(alphabet="ab #*-`>\n"))
def test_all_but_tables_is_as_the_model_wrote_it(text):
    assert plain_markdown(text) == text
