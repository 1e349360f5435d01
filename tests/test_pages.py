"""The pages a reader meets: their links lead somewhere, and their picture can be drawn again."""

import html
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
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


def words_of(path):
    text = html.unescape(re.sub(r"<[^>]+>", " ", path.read_text()))
    return " ".join(text.replace("\u00a0", " ").split())


@pytest.mark.slow
def test_the_pictures_of_the_screen_are_drawn_from_a_run(tmp_path):
    subprocess.run([sys.executable, ROOT / "docs/picture.py", tmp_path], check=True, timeout=120)
    for folder in (tmp_path, ROOT / "docs"):
        for shown in (
            "Find out why and fix it.",
            "Edited dates.py",
            "Allowed once: dates.py",
            "all good",
        ):
            assert shown in words_of(folder / "screen.svg")
            assert shown in words_of(folder / "session.svg")
        film = (folder / "session.svg").read_text()
        assert "restored dates.py" in words_of(folder / "session.svg")
        assert film.count("@keyframes") > 20
        assert "<script" not in film
        ElementTree.fromstring(film)
