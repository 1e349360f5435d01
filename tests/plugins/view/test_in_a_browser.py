"""The pages in a real browser: Chromium, driven by a test, over the installed `kode view`."""

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from kode import paths
from tests.needs import needs
from tests.plugins.view.conftest import a_session, hostile_session, make_place, remember

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
LIMIT_MS = 120_000
"""Only a hang takes so long, on a busy machine too."""
OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    *([needs("chromium-headless-shell")] if CHROMIUM is None else []),
]


class Shown:
    """A server with something to show, and a browser beside it."""

    def __init__(self, browser, link, hostile):
        self.browser, self.link = browser, link
        self.address = link.partition("/?")[0]
        self.hostile = f"/sessions/{hostile}"
        self.events = []
        """Dialogs and faults."""
        self.requests = []

    def context(self, **options):
        """A browser of its own, whose dialogs, requests and faults are noted."""
        context = self.browser.new_context(**options)
        context.set_default_timeout(LIMIT_MS)
        context.set_default_navigation_timeout(LIMIT_MS)
        context.on("dialog", lambda it: (self.events.append(it.message), it.dismiss()))
        context.on("console", lambda it: self.events.append(it.text))
        context.on("weberror", lambda it: self.events.append(str(it.error)))
        context.on("request", lambda it: self.requests.append(it.url))
        return context

    def enter(self):
        """A page in a browser that uses the link."""
        page = self.context().new_page()
        page.goto(self.link)
        page.wait_for_url(f"{self.address}/")
        return page


@pytest.fixture
def shown(tmp_path):
    asyncio.run(remember(make_place(tmp_path)))
    a_session(paths.kode_home(), ["fix the race", "and its test", "say why"])
    hostile = hostile_session(paths.kode_home())
    kode = Path(sys.executable).with_name("kode")
    server = subprocess.Popen(
        [kode, "view", "--no-browser", "--cwd", tmp_path], stdout=subprocess.PIPE, text=True
    )
    try:
        link = server.stdout.readline().strip()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, timeout=LIMIT_MS)
            yield Shown(browser, link, hostile)
            browser.close()
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)
    assert server.returncode == 0


def test_every_page_fits_everyone_and_runs_nothing(shown):
    axe, state = Axe(), shown.enter().context.storage_state()
    for scheme, width in (("light", 1280), ("dark", 400)):
        page = shown.context(
            storage_state=state,
            color_scheme=scheme,
            viewport={"width": width, "height": 900},
            bypass_csp=True,  # for axe, which is a script of the test's own
        ).new_page()
        for path in ("/", "/memory", "/costs", shown.hostile, "/?q=%3Cscript%3E"):
            assert page.goto(shown.address + path).status == 200
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.locator("h1").count() == 1
            result = axe.run(page)
            assert result.response["passes"], "axe did not look"
            assert result.violations_count == 0, f"{path}, {scheme}:\n{result.generate_report()}"
            page.evaluate(OPEN_ALL)
            page.mouse.move(200, 200)
            page.mouse.wheel(0, 5_000)
            assert page.title() != "owned"
        page.goto(shown.address + shown.hostile)
        assert "<script>document.title='owned'; alert(1)" in page.inner_text(".words.you")
        assert page.locator("script, img, iframe, main svg").count() == 0
    assert all(url.startswith((shown.address, "data:")) for url in shown.requests)
    assert shown.events == []
