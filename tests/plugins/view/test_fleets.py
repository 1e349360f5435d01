"""The pages of fleets."""

from pathlib import Path

from kode.plugins.fleet.queue import Queue, create
from kode.plugins.fleet.records import Finished, Fleet, Started, Task
from tests.plugins.view.conftest import HOSTILE, Browser
from tests.plugins.view.reading import assert_harmless

ID = "20260101-000000-aaaaaa"


def fleet(home: Path, *texts: str) -> Queue:
    tasks = tuple(
        Task(id=f"t{number}", task=text, source="/project", isolate="none")
        for number, text in enumerate(texts)
    )
    return create(
        home, Fleet(id=ID, created_at="2026-01-01T00:00:00Z", tasks=tasks, trees="/trees")
    )


def test_a_fleet_shows_its_tasks_and_links_their_sessions(browser: Browser) -> None:
    queue = fleet(browser.place.home, "Fix the race", "Write the docs")
    lease = queue.lease()
    assert lease is not None
    queue.record(
        Started(
            task="t0",
            lease=lease.lease,
            host="h",
            at=0,
            tree="/t",
            base="",
            mark="0",
            unknown=("shell {}",),
        ),
        under=lease,
    )
    assert f'<a href="/fleets/{ID}">' in browser.get("/fleets")
    page = browser.get(f"/fleets/{ID}")
    assert f'<a href="/sessions/{lease.session}">Fix the race</a>' in page
    assert "1 running, 1 waiting" in page
    assert "result unknown: shell {}" in page
    queue.record(
        Finished(task="t0", lease=lease.lease, status="error", error="No key."), under=lease
    )
    assert "t0 · No key." in browser.get(f"/fleets/{ID}")


def test_texts_of_a_fleet_are_shown_as_text(browser: Browser) -> None:
    fleet(browser.place.home, HOSTILE)
    assert_harmless(browser.get(f"/fleets/{ID}"))


def test_only_fleets_of_the_home_are_shown(browser: Browser, tmp_path: Path) -> None:
    fleet(tmp_path / "elsewhere", "Secret")
    folder = str(tmp_path / "elsewhere/queues" / ID).replace("/", "%2F")
    for name in (folder, "%2E%2E", "20260101"):
        assert browser.client.get(f"/fleets/{name}").status_code == 404


def test_a_damaged_fleet_is_named_beside_the_others(browser: Browser) -> None:
    queue = fleet(browser.place.home, "Fix the race")
    (queue.folder / "fleet.json").write_text("{")
    assert "cannot be read: it is damaged" in browser.get("/fleets")
