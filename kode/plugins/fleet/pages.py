"""What `kode view` shows of fleets."""

from collections.abc import Mapping

from kode.plugin import KodeError, Page, Place
from kode.plugins.fleet.queue import open_queue, queues
from kode.plugins.fleet.report import Summary, rows_of, summary_of

FLEETS, TASKS = 30, 100
"""Items per page."""


def fleets(place: Place, query: Mapping[str, str]) -> tuple[str, Mapping[str, object]]:
    """The list of fleets, newest first."""
    start = (int(query["page"]) - 1) * FLEETS
    folders = queues(place.home)[start : start + FLEETS + 1]
    rows: list[tuple[str, Summary | None, str]] = []
    for folder in folders[:FLEETS]:
        try:
            rows.append((folder.name, summary_of(open_queue(place.home, str(folder))), ""))
        except KodeError as error:
            rows.append((folder.name, None, str(error)))
    return "fleets.html", {"fleets": rows, "more": len(folders) > FLEETS}


def fleet(place: Place, query: Mapping[str, str]) -> tuple[str, Mapping[str, object]] | None:
    """One fleet and its tasks; None if no fleet has this id. Raises: UserError if it cannot be
    read."""
    folders = [folder for folder in queues(place.home) if folder.name == query["id"]]
    if not folders:
        return None
    queue = open_queue(place.home, str(folders[0]))
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
