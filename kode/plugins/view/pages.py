"""The pages by address, each built from disk on request with a template.

Every value in a template goes through `show_value` and is then escaped: texts of a session, a file
or the web can hold markup, scripts, control characters and marks that reverse a line, all of which
are displayed as text.
"""

import functools
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from kode.plugin import (
    AnyEntry,
    KodeError,
    MemoryRefused,
    SessionError,
    Spending,
    Transcript,
    describe_fault,
    find_session,
    list_sessions,
    money,
    open_memory,
    path_hash,
    plural,
    project_root,
    search_sessions,
    session_file,
    subagent_records,
)
from kode.plugins.view.access import Guard, Keys
from kode.plugins.view.session import session_view

SESSIONS, TURNS, MATCHES = 50, 40, 20
"""Items per page."""
SEARCH_CHARS = 200  # nobody types more
NOT_FOUND = (SessionError, MemoryRefused)


VIEWS = {"/": "Sessions", "/memory": "Memory", "/costs": "Costs"}
"""Address of each page in the navigation → its name there."""


@dataclass(frozen=True, kw_only=True)
class PageSubject:
    """The home, project and settings that the pages show."""

    home: Path
    """`$KODE_HOME`."""
    cwd: Path
    """The folder whose project is "this project"."""
    config: Any


def make_application(place: PageSubject, keys: Keys) -> ASGIApp:
    """The web application: all pages, behind the guard that checks each request."""
    pages = _Pages(place)
    routes = [
        Route("/", pages.sessions),
        Route("/sessions/{id}", pages.session),
        Route("/memory", pages.memory),
        Route("/style.css", _style_response),
        Route("/costs", pages.costs),
    ]
    handlers = dict.fromkeys((KodeError, HTTPException, Exception), pages.fault)
    return Guard(Starlette(routes=routes, exception_handlers=handlers), keys)


class _Pages:
    """The handlers of requests, one for each address. Those that only read files are plain
    functions, which Starlette runs in a thread."""

    def __init__(self, place: PageSubject) -> None:
        self._place = place

    def sessions(self, request: Request) -> Response:
        home, number = self._place.home, _page_number(request)
        query = request.query_params.get("q", "").strip()[:SEARCH_CHARS]
        start = (number - 1) * SESSIONS
        # Without a query only as many files are read as the page shows.
        rows = [
            row
            for row in list_sessions(home, limit=None if query else start + SESSIONS + 1)
            if all(
                word in f"{row.id} {row.task} {row.cwd} {row.model}".casefold()
                for word in query.casefold().split()
            )
        ][start:]
        return self._render_page(
            "sessions.html",
            rows=rows[:SESSIONS],
            places=search_sessions(home, query.split(), MATCHES) if query and not start else [],
            query=query,
            count=sum(1 for _ in session_file(home, "any").parent.glob("*.jsonl")),
            part=_show_list_page(request, has_more=len(rows) > SESSIONS),
        )

    def session(self, request: Request) -> Response:
        home = self._place.home
        path = session_file(home, find_session(home, request.path_params["id"]))
        view = session_view(Transcript.read(path))
        entry = request.query_params.get("at", "")
        for index, shown in enumerate(view.turns):
            if any(each.id == entry for each in shown.turn.entries):
                page = index // TURNS + 1
                return RedirectResponse(
                    f"{request.url.path}?page={page}#{shown.turn.entries[0].id}", 303
                )
        turns = view.turns[(_page_number(request) - 1) * TURNS :]
        part = _show_list_page(request, has_more=len(turns) > TURNS)
        return self._render_page("session.html", session=view, part=part, shown=turns[:TURNS])

    def costs(self, request: Request) -> Response:
        period = request.query_params.get("days", "")
        return self._render_page("costs.html", part=None, **cost_values(self._place.home, period))

    async def memory(self, request: Request) -> Response:
        async with open_memory(self._place.config, self._place.cwd) as opened:
            overview, notices = await opened.overview(), opened.notices
        return self._render_page(
            "memory.html",
            memory=overview,
            sources=Counter(entry.statement.who for entry in overview.entries).most_common(),
            notices=notices,
            here=path_hash(project_root(self._place.cwd)),
        )

    def fault(self, request: Request, error: Exception) -> Response:
        """The page for an error; it says what to do about it."""
        title, status = "Not possible", 500
        match error:
            case HTTPException(status_code=status, detail=text):
                title, text = "Nothing here", "There is no such page." if status == 404 else text
            case KodeError():
                text, status = str(error), 404 if isinstance(error, NOT_FOUND) else 500
            case _:
                title, text = "An internal error in kode", describe_fault(error)
        return self._render_page("message.html", status, title=title, text=text)

    def _render_page(self, template: str, status: int = 200, /, **values: object) -> Response:
        text = _make_environment().get_template(template).render(views=VIEWS, **values)
        return HTMLResponse(text, status)


def _page_number(request: Request) -> int:
    """The requested page of a list, from 1."""
    text = request.query_params.get("page", "1")
    return max(1, int(text)) if re.fullmatch(r"[0-9]{1,6}", text) else 1


def _show_list_page(request: Request, *, has_more: bool) -> Mapping[str, object]:
    """The values that `pager` in `parts.html` needs to link the pages of a long list."""

    def address(number: int) -> str:
        url = request.url.include_query_params(page=number)
        return f"{url.path}?{url.query}"

    return {"number": _page_number(request), "has_more": has_more, "address": address}


def _style_response(request: Request) -> Response:
    text = Path(__file__).with_name("style.css").read_text("utf-8")
    return Response(text, media_type="text/css")


PERIODS = (7, 30, 90, 365)
"""The periods that the page of costs offers, in days."""


def cost_values(home: Path, period: str) -> dict[str, object]:
    """The values of the page of costs; days come newest first, projects and models by falling
    cost. A period that is not offered means 30 days. Raises: StorageError."""
    days = next((days for days in PERIODS if str(days) == period), 30)
    now = datetime.now().astimezone()
    first = (now - timedelta(days=days - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    by_day: dict[str, list[AnyEntry]] = {}
    by_project: dict[str, list[AnyEntry]] = {}
    for _, folder, entry in Spending.requests_by_folder(home, first):
        day = f"{datetime.fromisoformat(entry.at).astimezone():%Y-%m-%d}"
        by_day.setdefault(day, []).append(entry)
        by_project.setdefault(folder or "unknown", []).append(entry)
    models = Spending.of(entry for entries in by_day.values() for entry in entries)
    totals = [(name, Spending.of(by_project[name]).total) for name in sorted(by_project)]
    values = {
        "days": [(day, Spending.of(by_day[day]).total) for day in sorted(by_day)[::-1]],
        "projects": sorted(totals, key=lambda row: -row[1].cost_usd),
        "models": [*models.items()],
        "total": models.total,
    }
    return {"costs": values, "period": days, "periods": PERIODS}


_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
"""Control characters, marks that reorder text, and zero-width characters, which all can hide."""


def show_value(value: Any) -> Any:
    """A value as displayed text, with hidden characters spelt out; escaping comes after it."""
    if isinstance(value, Markup):
        return value
    text = str(value).replace("\r\n", "\n")
    return (
        _UNSEEN.sub(lambda unseen: f"⟨U+{ord(unseen[0]):04X}⟩", text)
        .encode("utf-8", "replace")
        .decode()
    )


@functools.cache
def _make_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        finalize=show_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"agents_in": subagent_records}
    environment.filters |= {
        "when": format_time,
        "dollars": lambda amount: money(amount) or "unknown",
        "number": "{:,.0f}".format,
        "plural": plural,
        "seconds": format_duration,
        "folder": format_folder,
    }
    return environment


def format_folder(path: Path | str) -> str:
    """A path, with `~` for the person's home folder."""
    home = os.environ.get("HOME", "").rstrip("/")
    is_inside = bool(home) and f"{path}/".startswith(f"{home}/")
    return f"~{str(path).removeprefix(home)}" if is_inside else str(path)


def format_time(at: str) -> str:
    """An ISO time in local time, to the minute; any other text unchanged."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return at or "unknown"


def format_duration(duration_ms: int) -> str:
    whole = duration_ms / 1000
    return f"{whole:.1f} s" if whole < 60 else f"{int(whole // 60)} min {int(whole % 60)} s"
