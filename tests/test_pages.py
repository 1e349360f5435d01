"""The pages a reader meets: their links lead somewhere, and their tables name what there is. That
their commands run: `tests/e2e/pages`."""

import json
import re
from pathlib import Path
from typing import get_args

from kode import events
from kode.cli.screen.printer import event_object, print_failure
from kode.errors import EXIT_NOT_STARTED, ConfigError
from tests.tables import for_each

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]*))?\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page):
    """The names that links to headings of a page use, as code hosts make them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in kept}


@for_each("page", PAGES)
def test_every_link_leads_to_an_existing_file_and_heading(page):
    broken = []
    for name, heading in LINK.findall(FENCE.sub("", page.read_text())):
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (heading and heading not in anchors(target)):
            broken.append(f"{name}#{heading}")
    assert broken == []


def test_every_page_can_be_reached_from_the_readme():
    seen, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        ahead += [(page.parent / name).resolve() for name, _ in LINK.findall(page.read_text())]
    assert [page for page in PAGES if page not in seen] == []


SCRIPTS = (ROOT / "docs/scripts.md").read_text()


def named_under(heading):
    """The names in the first column of the tables below a heading of the page about scripts."""
    part = SCRIPTS.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| ([^|]*) \|", part, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`?(\w+)`?", cell)}


def test_every_event_is_documented():
    there_are = {kind.__dataclass_fields__["type"].default for kind in get_args(events.Event)}
    # What ends a turn is printed as the `result`; a call that begins to arrive is the engine's own.
    assert there_are - {"turn_ended", "call_announced"} == named_under(
        "`--output-format stream-json`"
    ) - {"type"}


def test_the_fields_of_the_result_are_those_of_the_example(capsys):
    shown = json.loads(re.search(r"^```json\n(.*?)^```$", SCRIPTS, re.MULTILINE | re.DOTALL)[1])
    print_failure(["--output-format", "json"], ConfigError("x"))
    assert shown.keys() == json.loads(capsys.readouterr().out).keys()


def test_every_exit_status_is_documented():
    documented = {int(name) for name in named_under("Exit statuses") if name.isdigit()}
    assert documented == {*events.EXIT_CODES.values(), EXIT_NOT_STARTED}


def test_events_print_with_their_type_first():
    assert next(iter(event_object(events.Notice(text="x")))) == "type"


MOST_WORDS = 24_000
"""Of the pages for users. It only goes down: say it shorter, or cut."""
OF_MAINTAINERS = re.compile(r"decisions/|docs/(adding-.*|architecture|plugins|tests|tour)\.md")


def test_the_pages_for_users_have_few_words():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = [page.read_text() for page in pages if not OF_MAINTAINERS.search(str(page))]
    assert sum(len(text.split()) for text in texts) <= MOST_WORDS
