"""The pages by address. Each is built from disk on request."""

import itertools
import re
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from kode import paths
from kode.config import Config, given_prices
from kode.errors import KodeError, MemoryRefused, SessionError
from kode.fault_reports import write_report
from kode.memory.precedence import LABELS
from kode.plugins.cost.figures import session_cost
from kode.plugins.fleet.queue import open_queue, queues
from kode.plugins.fleet.report import Summary as FleetSummary
from kode.plugins.fleet.report import rows_of, summary_of
from kode.providers.models import pricing
from kode.session import index
from kode.session.index import Summary
from kode.session.search import search
from kode.view import agents, remembered, render, spent
from kode.view.access import Guard, Keys, has_form_token
from kode.view.session import SessionView, agent_view, session_view

SESSIONS, TURNS, CHANGES, TREES, PLACES, FLEETS, TASKS = 50, 40, 50, 30, 20, 30, 100
"""Items per page."""
PERIODS = (7, 30, 90, 365)
"""Periods for costs, in days."""
SEARCH_CHARS = 200


@dataclass(frozen=True, kw_only=True)
class Place:
    """What the pages are about."""

    home: Path
    cwd: Path
    """The folder whose project is "this project"."""
    config: Config


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
        Route("/agents", pages.trees),
        Route("/memory", pages.memory),
        Route("/memory/changes", pages.changes),
        Route("/memory/changes/{id}", pages.change),
        Route("/memory/review/{id}/{choice}", pages.decide, methods=["POST"]),
        Route("/memory/undo/{id}", pages.undo, methods=["POST"]),
        Route("/costs", pages.costs),
        Route("/fleets", pages.fleets),
        Route("/fleets/{id}", pages.fleet),
        Route("/style.css", _style),
    ]
    handlers = {KodeError: _fault, HTTPException: _no_page, Exception: _own_fault}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), keys)


class _Pages:
    """The handlers, by address. Those that only read files are plain functions, which Starlette
    runs in a thread."""

    def __init__(self, place: Place, keys: Keys) -> None:
        self._place = place
        self._keys = keys

    def sessions(self, request: Request) -> Response:
        home = self._place.home
        query = request.query_params.get("q", "").strip()[:SEARCH_CHARS]
        found = (one for one in index.last_used_first(home) if _matches(one, query.casefold()))
        start = (_number(request) - 1) * SESSIONS
        rows = list(itertools.islice(found, start, start + SESSIONS + 1))
        return _page(
            "sessions.html",
            rows=rows[:SESSIONS],
            places=search(home, query.split(), PLACES) if query and not start else [],
            query=query,
            count=len(index.files(home)),
            part=_part(request, len(rows) > SESSIONS),
        )

    def session(self, request: Request) -> Response:
        view = session_view(self._place.home, request.path_params["id"])
        entry = request.query_params.get("at", "")
        for position, turn in enumerate(view.turns):
            if any(one.id == entry for one in turn.entries):
                page = position // TURNS + 1
                return RedirectResponse(f"{request.url.path}?page={page}#{turn.id}", 303)
        if _number(request) == 1:
            price = pricing(given_prices(self._place.config))
            cost = session_cost(self._place.home, request.path_params["id"], price)
            view = replace(view, lost=cost.breaks)
        return _session_page(request, view)

    def agent(self, request: Request) -> Response:
        session_id, address = request.path_params["id"], request.path_params["address"]
        return _session_page(request, agent_view(self._place.home, session_id, address))

    def trees(self, request: Request) -> Response:
        home = self._place.home
        start = (_number(request) - 1) * TREES
        ids = agents.sessions_with_agents(home)
        rows = list(itertools.islice(ids, start, start + TREES + 1))
        found = [
            (
                index.summarize(paths.session_file(home, session_id)),
                agents.tree(paths.agents_folder(paths.session_folder(home, session_id))),
            )
            for session_id in rows[:TREES]
        ]
        return _page("agents.html", trees=found, part=_part(request, len(rows) > TREES))

    async def memory(self, request: Request) -> Response:
        found = await remembered.remembered(self._place.config, self._place.cwd)
        source, use = (request.query_params.get(name, "") for name in ("source", "use"))
        return _page(
            "memory.html",
            memory=found,
            shown=[
                one
                for one in found.entries
                if source in ("", one.rank.name.lower()) and use in ("", one.use)
            ],
            kinds=remembered.KINDS.values(),
            ranks=LABELS,
            uses=remembered.USES,
            narrowed=bool(source or use),
            token=self._keys.form_token,
        )

    async def changes(self, request: Request) -> Response:
        found = await remembered.history(self._place.config, self._place.cwd)
        start = (_number(request) - 1) * CHANGES
        part = _part(request, len(found) > start + CHANGES)
        return _page("changes.html", changes=found[start : start + CHANGES], part=part)

    async def change(self, request: Request) -> Response:
        place, id = self._place, request.path_params["id"]
        changes = await remembered.history(place.config, place.cwd)
        for one in changes:
            if one.change.id == id:
                chain = await remembered.chain(place.config, place.cwd, one.change)
                return _page("change.html", linked=one, chain=chain)
        raise HTTPException(404)

    async def decide(self, request: Request) -> Response:
        await self._check_form(request)
        place, asked = self._place, request.path_params
        done = await remembered.decide(place.config, place.cwd, asked["id"], asked["choice"])
        path = f"/memory/undo/{done.change_id}" if done.change_id else ""
        return _page("decided.html", text=done.text, undo=path, token=self._keys.form_token(path))

    async def undo(self, request: Request) -> Response:
        await self._check_form(request)
        place = self._place
        done = await remembered.undo(place.config, place.cwd, request.path_params["id"])
        return _page("message.html", title="Undone", text=done, back="/memory", to="Memory")

    async def _check_form(self, request: Request) -> None:
        if not await has_form_token(request, self._keys):
            raise HTTPException(403, "This form is not of a page that kode showed. Reload memory.")

    def fleets(self, request: Request) -> Response:
        start = (_number(request) - 1) * FLEETS
        folders = queues(self._place.home)[start : start + FLEETS + 1]
        found: list[tuple[str, FleetSummary | None, str]] = []
        for folder in folders[:FLEETS]:
            try:
                found.append(
                    (folder.name, summary_of(open_queue(self._place.home, str(folder))), "")
                )
            except KodeError as error:
                found.append((folder.name, None, str(error)))
        return _page("fleets.html", fleets=found, part=_part(request, len(folders) > FLEETS))

    def fleet(self, request: Request) -> Response:
        named = [one for one in queues(self._place.home) if one.name == request.path_params["id"]]
        if not named:
            raise HTTPException(404)
        queue = open_queue(self._place.home, str(named[0]))
        start, rows = (_number(request) - 1) * TASKS, rows_of(queue)
        part = _part(request, len(rows) > start + TASKS)
        shown = rows[start : start + TASKS]
        return _page("fleet.html", fleet=summary_of(queue), rows=shown, part=part)

    def costs(self, request: Request) -> Response:
        asked = request.query_params.get("days", "")
        days = next((one for one in PERIODS if str(one) == asked), 30)
        now = datetime.now().astimezone()
        found = spent.overview(self._place.home, days, now)
        return _page("costs.html", costs=found, days=days, periods=PERIODS)


def _matches(summary: Summary, words: str) -> bool:
    text = f"{summary.id} {summary.task} {summary.cwd} {summary.model}".casefold()
    return all(word in text for word in words.split())


def _session_page(request: Request, view: SessionView) -> Response:
    start = (_number(request) - 1) * TURNS
    part = _part(request, len(view.turns) > start + TURNS)
    return _page("session.html", session=view, part=part, shown=view.turns[start : start + TURNS])


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


def _page(template: str, status: int = 200, **values: object) -> Response:
    return HTMLResponse(render.page(template, **values), status)


def _style(request: Request) -> Response:
    return FileResponse(render.STYLE, media_type="text/css")


def _fault(request: Request, error: Exception) -> Response:
    """The page for an error, with what to do about it."""
    status = 404 if isinstance(error, SessionError | MemoryRefused) else 500
    return _page(
        "message.html", status, title="Not possible", text=str(error), back="/", to="Sessions"
    )


def _no_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = error.detail if error.status_code != 404 else "There is no such page."
    return _page(
        "message.html", error.status_code, title="Nothing here", text=text, back="/", to="Sessions"
    )


def _own_fault(request: Request, error: Exception) -> Response:
    where = write_report(error)
    return _page(
        "message.html", 500, title="An internal error in kode", text=where, back="/", to="Sessions"
    )
