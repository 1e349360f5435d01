"""The pages in a real browser: Chromium, driven by a test, over the installed `kode view`."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from kode import paths
from kode.conversation.memory import open_configured, outside_context
from kode.events import silent
from kode.memory.commands import memory_command
from kode.plugin import Place
from kode.plugins.view.session import session_document
from kode.session.transcript import Transcript
from tests.needs import needs
from tests.plugins.view.conftest import HOSTILE, a_session, hostile_session, make_place, remember

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
LIMIT_MS = 120_000
"""Only a hang takes so long, on a busy machine too."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    *([needs("chromium-headless-shell")] if CHROMIUM is None else []),
]


@dataclass
class Shown:
    """A server with something to show, and a browser beside it."""

    browser: Browser
    address: str
    link: str
    sessions: dict[str, str]
    """What it is → id."""
    dialogs: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def context(self, **options: object) -> BrowserContext:
        """A browser of its own, whose dialogs, requests and faults are noted."""
        context = self.browser.new_context(**options)  # type: ignore[arg-type]
        context.set_default_timeout(LIMIT_MS)
        context.set_default_navigation_timeout(LIMIT_MS)
        context.on("dialog", lambda one: (self.dialogs.append(one.message), one.dismiss()))
        context.on("request", lambda one: self.requests.append(one.url))
        context.on("console", lambda one: self.faults.append(one.text))
        context.on("weberror", lambda one: self.faults.append(str(one.error)))
        return context

    def enter(self, **options: object) -> Page:
        """A page in a browser that uses the link."""
        page = self.context(**options).new_page()
        page.goto(self.link)
        page.wait_for_url(f"{self.address}/")
        return page

    @property
    def views(self) -> tuple[str, ...]:
        ids = self.sessions.values()
        return ("/", "/memory", "/fleets", "/costs", *(f"/sessions/{id}" for id in ids))


async def remember_a_pair(place: Place) -> None:
    """Two facts that nobody has compared."""
    context = outside_context(place.config, place.cwd, emit=silent)
    async with open_configured(place.config.memory, context) as system:
        for port in (8080, 8081):
            text = f"the staging server listens on {port}"
            await memory_command(system, ["add", "user", text])


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    home = paths.home()
    asyncio.run(remember(make_place(tmp_path)))
    asyncio.run(remember_a_pair(make_place(tmp_path)))
    sessions = {
        "plain": a_session(home, ["fix the race", "and its test", "say why"]),
        "hostile": hostile_session(home),
    }
    server = subprocess.Popen(
        [Path(sys.executable).with_name("kode"), "view", "--no-browser", "--cwd", tmp_path],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "DISPLAY": ""},
    )
    try:
        assert server.stdout is not None
        link = server.stdout.readline().strip()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, timeout=LIMIT_MS)
            address = link.partition("/?")[0]
            yield Shown(browser=browser, address=address, link=link, sessions=sessions)
            browser.close()
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)
    assert server.returncode == 0


def test_every_view_opens_fits_and_can_be_used_by_everyone(shown):
    axe = Axe()
    first = shown.enter()
    state = first.context.storage_state()
    for scheme, width in (("light", 1280), ("dark", 400)):
        page = shown.context(
            storage_state=state,
            color_scheme=scheme,
            viewport={"width": width, "height": 900},
            bypass_csp=True,  # for axe, which is a script of the test's own
        ).new_page()
        for path in shown.views:
            assert page.goto(shown.address + path).status == 200
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.locator("h1").count() == 1
            found = axe.run(page)
            assert found.response["passes"], "axe did not look"
            assert found.violations_count == 0, f"{path}, {scheme}:\n{found.generate_report()}"
    assert {url.partition("/")[0] for url in shown.requests} <= {"http:", "data:"}
    assert all(url.startswith((shown.address, "data:")) for url in shown.requests)
    assert shown.faults == []


def test_an_approval_by_keyboard_counts(shown):
    page = shown.enter()
    page.goto(f"{shown.address}/memory")

    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "BUTTON":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:text('Decided')")

    assert "kode memory undo" in page.inner_text("main")
    page.goto(f"{shown.address}/memory")
    assert page.locator("button:text('Approve')").count() == 0
    assert shown.faults == []


def test_clicks_decide_a_pair_and_undo_the_decision(shown):
    page = shown.enter()
    page.goto(f"{shown.address}/memory")

    pair = page.locator("article", has_text="the staging server listens on 8080")
    pair.get_by_role("button", name="Keep the second").click()
    page.wait_for_selector("h1:text('Decided')")
    assert "instead of" in page.inner_text("main")
    page.click("button:text('Undo')")
    page.wait_for_selector("h1:text('Undone')")

    page.goto(f"{shown.address}/memory")
    assert page.locator("button:text('Keep the second')").count() == 1
    assert shown.faults == []


def test_a_hostile_session_runs_nothing(shown):
    page = shown.enter()
    titles = []
    for path in (*shown.views, f"/?q={'%3Cscript%3Ealert(6)%3C/script%3E'}"):
        page.goto(shown.address + path)
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        page.mouse.move(200, 200)
        page.mouse.wheel(0, 5_000)
        titles.append(page.title())
    page.goto(f"{shown.address}/sessions/{shown.sessions['hostile']}")

    assert "<script>document.title='owned'; alert(1)</script>" in page.inner_text(".words.you")
    assert page.locator("script, img, iframe, main svg").count() == 0
    assert "owned" not in titles
    assert shown.dialogs == []
    assert all(url.startswith((shown.address, "data:")) for url in shown.requests)
    assert shown.faults == []


def test_an_exported_session_stands_alone_and_runs_nothing(shown, tmp_path):
    file = tmp_path / "session.html"
    file.write_text(
        session_document(
            Transcript.read(paths.session_file(paths.home(), shown.sessions["hostile"]))
        ),
        encoding="utf-8",
    )
    page = shown.context().new_page()

    page.goto(file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")

    assert HOSTILE[:40] in page.inner_text(".words.you")
    # Its own style is in force, and nobody else's.
    assert page.evaluate("getComputedStyle(document.querySelector('.words.you')).borderRadius")
    assert page.evaluate("getComputedStyle(document.querySelector('.call')).borderStyle") == "solid"
    assert page.locator("a[href]:not([href^='#'])").count() == 0
    assert [url for url in shown.requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in shown.requests if url.startswith("file:")]) == 1
    assert shown.dialogs == shown.faults == []


def test_another_browser_gets_nothing_without_the_token(shown):
    shown.enter()
    other = shown.context().new_page()

    for path in ("/", "/memory", shown.link.removeprefix(shown.address)):
        assert other.goto(shown.address + path).status == 403
    assert "works once" in other.inner_text("body")


def test_a_page_of_another_site_reads_and_changes_nothing(shown):
    page = shown.enter()
    page.goto(f"{shown.address}/memory")
    action = page.get_attribute("form[method=post]", "action")
    token = page.get_attribute("input[name=token]", "value")
    attack = f"""<body><iframe src="{shown.address}/memory"></iframe>
        <form method="post" action="{shown.address}{action}">
        <input name="token" value="{token}"></form>
        <a href="{shown.address}/memory">there</a>"""
    page.context.route(
        "http://evil.example/**", lambda route: route.fulfill(body=attack, content_type="text/html")
    )
    evil = page.context.new_page()

    evil.goto("http://evil.example/")
    read = evil.evaluate(
        f"fetch('{shown.address}/memory', {{credentials: 'include'}}).then(r => 'read', e => 'no')"
    )
    framed = evil.frames[1].evaluate("document.body ? document.body.innerText : ''")
    with evil.expect_navigation():
        evil.evaluate("document.forms[0].submit()")

    assert read == "no"
    assert "Waiting" not in framed
    assert "another site" in evil.inner_text("body")
    evil.goto("http://evil.example/")
    with evil.expect_navigation():
        evil.click("a")
    assert "Open the link" in evil.inner_text("body")
    page.reload()
    assert page.get_attribute("form[method=post]", "action") == action
