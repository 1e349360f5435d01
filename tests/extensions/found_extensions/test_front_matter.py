from hypothesis import given
from hypothesis import strategies as st

from kode.extensions.places import read_document as read


def test_fields_are_texts_lists_and_truths() -> None:
    document = read("---\nname: x\nn: 3\ntools: [Read, Grep]\nhidden: yes\nnothing:\n---\nbody\n")

    assert (document.text("name"), document.text("n")) == ("x", "3")
    assert document.text("tools") == "Read, Grep"
    assert document.is_set("hidden")
    assert document.text("nothing") == document.text("missing") == ""
    assert document.body == "body"


def test_a_colon_in_a_plain_value_stays_readable() -> None:
    document = read('---\nname: pdf\ndescription: Use when: a "PDF" is there\n---\nbody')

    assert document.text("description") == 'Use when: a "PDF" is there'
    assert document.text("name") == "pdf"


def test_hints_that_are_no_list_stay_readable() -> None:
    hooks = "hooks:\n  Stop:\n    - command: >-\n        run\n        it\n"
    document = read(f"---\nargument-hint: [what] [how]\nmodel: opus\n{hooks}---\nbody")

    assert document.text("argument-hint") == "[what] [how]"
    assert document.text("model") == "opus"


def test_aliases_cannot_make_a_text_that_fills_the_memory() -> None:
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))
    document = read(f"---\na0: &a0 [x, x]\n{levels}\n---\nbody")

    assert document.text("a29") == ""


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    read(text)
    read(f"---\n{text}\n---\nbody")
