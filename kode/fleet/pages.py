"""What `kode view` shows of fleets."""

from collections.abc import Mapping

from kode.config.plugin_pages import Page, Place
from kode.errors import KodeError
from kode.fleet.queue import open_queue, queues
from kode.fleet.report import Summary, rows_of, summary_of

FLEETS, TASKS = 30, 100
"""Items per page."""


def fleets(place: Place, query: Mapping[str, str]) -> tuple[str, Mapping[str, object]]:
    """The list of fleets, the newest first."""
    start = (int(query["page"]) - 1) * FLEETS
    folders = queues(place.home)[start : start + FLEETS + 1]
    found: list[tuple[str, Summary | None, str]] = []
    for folder in folders[:FLEETS]:
        try:
            found.append((folder.name, summary_of(open_queue(place.home, str(folder))), ""))
        except KodeError as error:
            found.append((folder.name, None, str(error)))
    return "fleets.html", {"fleets": found, "more": len(folders) > FLEETS}


def fleet(place: Place, query: Mapping[str, str]) -> tuple[str, Mapping[str, object]] | None:
    """One fleet with its tasks; None if there is none of this name. Raises: UserError for one that
    cannot be read."""
    named = [one for one in queues(place.home) if one.name == query["id"]]
    if not named:
        return None
    queue = open_queue(place.home, str(named[0]))
    start, rows = (int(query["page"]) - 1) * TASKS, rows_of(queue)
    return "fleet.html", {
        "fleet": summary_of(queue),
        "rows": rows[start : start + TASKS],
        "more": len(rows) > start + TASKS,
    }


PAGES = (
    Page(path="/fleets", title="Fleets", show=fleets),
    Page(path="/fleets/{id}", show=fleet),
)
