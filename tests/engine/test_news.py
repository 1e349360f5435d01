"""What a continued session is told of what changed at its beginning."""

from kode.engine.news import news_of, told

FACTS = "\n\n".join(
    [
        "# Memory\n<memory>\nReference data.",
        "Tests need Redis.",
        *(f"Service {number} listens on port {9000 + number}." for number in range(9)),
        "Use tabs.\n</memory>",
    ]
)


def test_unchanged_sections_and_blank_lines_are_not_news() -> None:
    known = {"kode": "You are kode.", "memory": FACTS}

    assert news_of({"kode": "Another version.", "memory": FACTS.replace("\n\n", "\n")}, known) == ()


def test_only_new_and_gone_lines_are_told_as_data() -> None:
    now = FACTS.replace("Use tabs.", "Use spaces.")

    ((entry, text),) = news_of({"memory": now}, {"memory": FACTS})

    assert (entry.section, entry.text) == ("memory", now)
    assert "Redis" not in text
    before, _, after = text.partition("Use spaces.")
    assert before.endswith("<memory>\n")
    assert after.startswith("\n</memory>")
    assert "Use tabs." in after


def test_memory_that_is_empty_now_is_told_once() -> None:
    ((entry, text),) = news_of({}, {"memory": FACTS})

    assert (entry.section, entry.text) == ("memory", "")
    assert "Redis" not in text
    assert news_of({}, {"memory": ""}) == ()


def test_instructions_that_are_not_given_again_still_hold() -> None:
    assert news_of({}, {"appended": "Answer in verse.", "given": "You are a poet."}) == ()
    ((entry, text),) = news_of({"appended": "In prose."}, {"appended": "Answer in verse."})
    assert entry.section == "appended"
    assert "In prose." in text


def test_a_section_that_is_all_new_is_told_whole() -> None:
    assert told("memory", "", FACTS).endswith(FACTS)
