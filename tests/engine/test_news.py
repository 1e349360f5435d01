"""What a continued session is told of what changed at its beginning."""

from kode.engine.news import news_of, told

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
    assert news_of(now, known) == ()


def test_only_new_and_gone_lines_are_told() -> None:
    now = RULES.replace("Use tabs.", "Use spaces.")

    ((entry, text),) = news_of({"given": now}, {"given": RULES})

    assert (entry.section, entry.text) == ("given", now)
    assert "Redis" not in text
    assert text.endswith("New:\nUse spaces.\nNo longer there:\nUse tabs.")


def test_servers_that_are_all_gone_are_told_once() -> None:
    ((entry, text),) = news_of({}, {"servers": RULES})

    assert (entry.section, entry.text) == ("servers", "")
    assert "Redis" not in text
    assert news_of({}, {"servers": ""}) == ()


def test_instructions_that_are_not_given_again_still_hold() -> None:
    assert news_of({}, {"appended": "Answer in verse.", "given": "You are a poet."}) == ()
    ((entry, text),) = news_of({"appended": "In prose."}, {"appended": "Answer in verse."})
    assert entry.section == "appended"
    assert "In prose." in text


def test_a_section_that_is_all_new_is_told_whole() -> None:
    assert told("given", "", RULES).endswith(RULES)
