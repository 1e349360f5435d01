"""Access control for the pages, and headers that restrict what a page may do in the browser.

The link that `kode view` prints holds a token that works once: the browser that opens it gets a
cookie, and from then on only requests with that cookie are answered. Other users of the machine,
other sites and DNS names rebound to 127.0.0.1 get one line of text.
"""

import hmac
import secrets
from dataclasses import dataclass, field

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With `no-referrer`, browsers would send `Origin: null` with a form.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""Sent with every answer. They forbid all scripts, since kode's pages have none."""

ENTRANCE = """\
<!doctype html><html lang="en"><head><meta charset="utf-8"><title>kode</title>
<meta http-equiv="refresh" content="0; url=/"></head>
<body><p><a href="/">Open kode</a></p></body></html>
"""
"""A page, because browsers treat a redirect as a request from the page that has the link: if that
is of another site, they would not send the cookie."""


@dataclass
class Keys:
    """The credentials of one browser, for as long as the server runs."""

    address: str
    """Host and port, as a browser sends them: `127.0.0.1:8000`."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """"" once used."""
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def origin(self) -> str:
        return f"http://{self.address}"

    @property
    def link(self) -> str:
        return f"{self.origin}/?token={self.token}"

    @property
    def cookie_name(self) -> str:
        """Includes the port: browsers share cookies between the ports of a host."""
        return f"kode_view_{self.address.rpartition(':')[2]}"

    def use_token(self, token: str) -> bool:
        """Whether the token is valid. A valid token is used up by this call."""
        if not self.token or not _is_same_secret(token, self.token):
            return False
        self.token = ""
        return True


class Guard:
    """Rejects unauthorized requests, and passes the rest to the pages."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        request = Request(scope)
        answer = self._refuse_request(request) or self._check_cookie(request) or self._app
        await answer(scope, receive, send_with_headers)

    def _refuse_request(self, request: Request) -> Response | None:
        keys = self._keys
        if request.headers.getlist("host") != [keys.address]:
            return _text_response(421, f"kode view answers at {keys.origin} only.")
        if request.method not in ("GET", "HEAD"):
            return _text_response(405, "Pages are only read.")
        if {*request.headers.getlist("origin")} - {keys.origin}:
            return _text_response(403, "This request comes from another site.")
        return None

    def _check_cookie(self, request: Request) -> Response | None:
        """Answers a request with a token or without the cookie; None lets any other pass."""
        keys = self._keys
        has_cookie = _is_same_secret(request.cookies.get(keys.cookie_name, ""), keys.cookie)
        token = request.query_params.get("token")
        if token is None or request.url.path != "/" or request.method != "GET":
            return None if has_cookie else _text_response(403, NO_ENTRY)
        if keys.use_token(token):
            entrance = HTMLResponse(ENTRANCE)
            entrance.set_cookie(
                keys.cookie_name, keys.cookie, httponly=True, samesite="strict", path="/"
            )
            return entrance
        return RedirectResponse("/", 303) if has_cookie else _text_response(403, NO_ENTRY)


NO_ENTRY = (
    "Open the link that `kode view` printed: it works once, in one browser. If it was used and not "
    "by you, stop `kode view` with Ctrl-C. Started again, it prints a new one."
)


def _is_same_secret(text: str, secret: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(text.encode(), secret.encode())


def _text_response(status: int, text: str) -> Response:
    return PlainTextResponse(text + "\n", status)
