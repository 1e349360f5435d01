"""The pages by address. Each is built from disk on request."""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from kode.plugin import (
    KodeError,
    MemoryRefused,
    Page,
    Place,
    SessionError,
    SessionSummary,
    Transcript,
    fault_reports,
    list_sessions,
    plugin_pages,
    search_sessions,
    session_files,
    session_path,
)
from kode.plugins.view import remembered, render
from kode.plugins.view.access import Guard, Keys, has_form_token
from kode.plugins.view.session import SessionView, agent_view, session_view

SESSIONS, TURNS, PLACES = 50, 40, 20
"""Items per page."""
SEARCH_CHARS = 200  # nobody types more
OWN_VIEWS = (("/", "Sessions"), ("/memory", "Memory"))
"""Addresses and names in the navigation, before those of other plug-ins."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One page of a long list."""

    number: int
    """From 1."""
    before: str
    """The address of the previous page; "" on the first."""
    after: str
    """The address of the next page; "" on the last."""


def application(place: Place, keys: Keys) -> ASGIApp:
    """All pages, behind their guard."""
    pages = _Pages(place, keys)
    routes = [
        Route("/", pages.sessions),
        Route("/sessions/{id}", pages.session),
        Route("/sessions/{id}/agents/{address:path}", pages.agent),
        Route("/memory", pages.memory),
        Route("/memory/review/{id}/{choice}", pages.decide, methods=["POST"]),
        Route("/memory/undo/{id}", pages.undo, methods=["POST"]),
        Route("/style.css", _style),
        *(Route(page.path, pages.of_plugin(page, package)) for package, page in pages.added),
    ]
    handlers = {KodeError: pages.fault, HTTPException: pages.no_page, Exception: pages.own_fault}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), keys)


class _Pages:
    """The handlers, by address. Those that only read files are plain functions, which Starlette
    runs in a thread."""

    def __init__(self, place: Place, keys: Keys) -> None:
        self._place = place
        self._keys = keys
        added = plugin_pages(_warn)
        self.added = [(package, page) for package, page in added if not page.is_part]
        self._parts = [(package, page) for package, page in added if page.is_part]
        titled = sorted((page.title, page.path) for _, page in self.added if page.title)
        self._views = (*OWN_VIEWS, *((path, title) for title, path in titled))

    def sessions(self, request: Request) -> Response:
        home = self._place.home
        query = request.query_params.get("q", "").strip()[:SEARCH_CHARS]
        start = (_number(request) - 1) * SESSIONS
        # Without a query only as many files are read as the page shows.
        summaries = list_sessions(home, limit=None if query else start + SESSIONS + 1)
        found = [summary for summary in summaries if _matches(summary, query.casefold())]
        rows = found[start : start + SESSIONS + 1]
        return self._page(
            "sessions.html",
            rows=rows[:SESSIONS],
            places=search_sessions(home, query.split(), PLACES) if query and not start else [],
            query=query,
            count=len(session_files(home)),
            part=_part(request, len(rows) > SESSIONS),
        )

    def session(self, request: Request) -> Response:
        view = session_view(
            Transcript.read(session_path(self._place.home, request.path_params["id"]))
        )
        entry = request.query_params.get("at", "")
        for position, turn in enumerate(view.turns):
            if any(one.id == entry for one in turn.entries):
                page = position // TURNS + 1
                return RedirectResponse(f"{request.url.path}?page={page}#{turn.id}", 303)
        return self._session_page(request, view, parts=_number(request) == 1)

    def agent(self, request: Request) -> Response:
        session_id, address = request.path_params["id"], request.path_params["address"]
        view = agent_view(self._place.home, session_id, address)
        return self._session_page(request, view, parts=False)

    def _session_page(self, request: Request, view: SessionView, *, parts: bool) -> Response:
        start = (_number(request) - 1) * TURNS
        return self._page(
            "session.html",
            session=view,
            part=_part(request, len(view.turns) > start + TURNS),
            shown=view.turns[start : start + TURNS],
            session_parts=list(self._shown_parts(request)) if parts and view.spending.rows else (),
        )

    def _shown_parts(self, request: Request) -> Iterator[str]:
        """What other plug-ins show of a session, as HTML. Never raises: a fault is a line."""
        for package, page in self._parts:
            try:
                shown = page.show(self._place, _query(request))
                if shown is not None:
                    yield render.part(shown[0], package, **shown[1])
            except KodeError as error:
                yield render.fault(str(error))
            except Exception as error:
                yield render.fault(fault_reports.write_report(error))

    def of_plugin(self, page: Page, package: str) -> Callable[[Request], Response]:
        """The handler of another plug-in's page."""

        def handler(request: Request) -> Response:
            shown = page.show(self._place, _query(request))
            if shown is None:
                raise HTTPException(404)
            template, values = shown
            part = _part(request, bool(values.get("more")))
            text = render.page(template, package, views=self._views, part=part, **values)
            return HTMLResponse(text)

        return handler

    async def memory(self, request: Request) -> Response:
        found = await remembered.remembered(self._place, request.query_params.get("source", ""))
        return self._page("memory.html", token=self._keys.form_token, **found)

    async def decide(self, request: Request) -> Response:
        await self._check_form(request)
        asked = request.path_params
        text, change_id = await remembered.decide(self._place, asked["id"], asked["choice"])
        path = f"/memory/undo/{change_id}" if change_id else ""
        return self._page("decided.html", text=text, undo=path, token=self._keys.form_token(path))

    async def undo(self, request: Request) -> Response:
        await self._check_form(request)
        done = await remembered.undo(self._place, request.path_params["id"])
        return self._page("message.html", title="Undone", text=done, back="/memory", to="Memory")

    async def _check_form(self, request: Request) -> None:
        if not await has_form_token(request, self._keys):
            raise HTTPException(403, "This form is not of a page that kode showed. Reload memory.")

    def fault(self, request: Request, error: Exception) -> Response:
        """The page for an error, with what to do about it."""
        status = 404 if isinstance(error, SessionError | MemoryRefused) else 500
        return self._message("Not possible", str(error), status)

    def no_page(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        text = error.detail if error.status_code != 404 else "There is no such page."
        return self._message("Nothing here", text, error.status_code)

    def own_fault(self, request: Request, error: Exception) -> Response:
        return self._message("An internal error in kode", fault_reports.write_report(error), 500)

    def _message(self, title: str, text: object, status: int) -> Response:
        return self._page("message.html", status, title=title, text=text, back="/", to="Sessions")

    def _page(self, template: str, status: int = 200, /, **values: object) -> Response:
        return HTMLResponse(render.page(template, views=self._views, **values), status)


def _warn(fault: str) -> None:
    from kode.plugin import clean  # at a fault alone: it is of the terminal

    print(clean(f"kode: {fault}"), file=sys.stderr)


def _matches(summary: SessionSummary, words: str) -> bool:
    text = f"{summary.id} {summary.task} {summary.cwd} {summary.model}".casefold()
    return all(word in text for word in words.split())


def _number(request: Request) -> int:
    """The requested page of a list, from 1."""
    asked = request.query_params.get("page", "1")
    return max(1, int(asked)) if re.fullmatch(r"[0-9]{1,6}", asked) else 1


def _part(request: Request, more: bool) -> Part:
    number = _number(request)

    def address(of: int) -> str:
        url = request.url.include_query_params(page=of)
        return f"{url.path}?{url.query}"

    return Part(
        number=number,
        before=address(number - 1) if number > 1 else "",
        after=address(number + 1) if more else "",
    )


def _query(request: Request) -> dict[str, str]:
    """What a plug-in's page is asked: the query, the parts of the address, the page of a list."""
    return {**request.query_params, **request.path_params, "page": str(_number(request))}


def _style(request: Request) -> Response:
    return Response(render.stylesheet(), media_type="text/css")
