"""What a continued session is told of what changed at its beginning."""

from kode.engine.context import describe_news, section_changes

RULES = "\n\n".join(
    [
        "Tests need Redis.",
        *(f"Service {number} listens on port {9000 + number}." for number in range(9)),
        "Use tabs.",
    ]
)


def test_unchanged_sections_and_blank_lines_are_not_news() -> None:
    known = {"kode": "You are kode.", "given": RULES, "memory": "Facts."}

    now = {"kode": "Another version.", "given": RULES.replace("\n\n", "\n"), "memory": "Others."}
    assert section_changes(now, known) == ()


def test_servers_that_are_all_gone_are_told_once() -> None:
    (entry,) = section_changes({}, {"servers": RULES})

    assert (entry.section, entry.text) == ("servers", "")
    assert "Redis" not in describe_news(entry).text
    assert section_changes({}, {"servers": ""}) == ()


def test_instructions_that_are_not_given_again_still_hold() -> None:
    assert section_changes({}, {"appended": "Answer in verse.", "given": "You are a poet."}) == ()
    (entry,) = section_changes({"appended": "In prose."}, {"appended": "Answer in verse."})
    assert entry.section == "appended"
    assert "In prose." in describe_news(entry).text


def test_a_section_that_is_all_new_is_told_whole() -> None:
    (entry,) = section_changes({"given": RULES}, {})
    assert describe_news(entry).text.endswith(RULES)
