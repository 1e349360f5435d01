"""Turns faults of a server or an SDK into kode's errors: one clear sentence and the next step.

The SDKs raise errors of many families (their own, the HTTP client's, JSON decoding, bare ValueError
and AssertionError), and servers word the same thing in many ways. Everything that leaves a provider
passes through here: `translate_errors` around a request, `status_error` for a server's answer.
`refusals.toml` lists how the vendors' own servers and their imitators word refusals, and what each
means: the key, the model, the size, or one part of a request. It is read only after the first
refusal, so that it does not delay the start.
"""

import contextlib
import functools
import json
import math
import re
import time
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kode.credentials import keep_secret, redact
from kode.errors import (
    LARGER_WINDOW,
    AuthenticationError,
    ContextOverflow,
    KodeError,
    ProviderError,
    RefusedError,
    Setting,
    ThinkingRefused,
    TransientError,
)
from kode.provider import Api
from kode.providers.draft import mapping_of, pick
from kode.providers.models import vendor_models
from kode.values import Value, field

MAX_DETAIL_CHARS = 400
"""How much of a server's own words an error repeats."""


class Endpoint(Value):
    """The server a provider talks to, as far as error texts need it."""

    base_url: str
    model: str
    api: Api = ""
    """The wire format; some refusals occur in one format only."""
    used: Mapping[str, Setting] = field(default_factory=dict)
    """As in `ProviderSettings`."""
    api_key: str = field(default="", repr=False)
    """Never shown; a server's echo of it is masked."""
    name: str = "NAME"
    """The provider's name, for the names of its settings."""

    def __post_init__(self) -> None:
        keep_secret(self.api_key)

    def setting(self, key: str) -> Setting:
        return self.used.get(key) or Setting(key)

    @property
    def shown_url(self) -> str:
        """The URL without user, password and query, which may be secret."""
        return re.sub(r"//[^/@]*@", "//", self.base_url.partition("?")[0])


class RefusalRule(Value):
    """How servers word one kind of refusal."""

    means: str
    """`overflow` (the request is larger than the window), `no_credit`, `bad_key`, `loading`,
    `no_model`, `no_route`, `retry`, `bound_thinking` (a server refuses the thinking that it
    sent), or the refused part of a request, a key of `RefusalTable.parts`."""
    patterns: Sequence[str]
    statuses: Collection[int | str]
    """The HTTP statuses it comes with; "stream": in the middle of an answer, "5xx": 500 or more."""
    api: Api = ""
    """The only wire format that the rule applies to; "" for all."""

    def fits(self, status: int | None, words: str) -> bool:
        key = "stream" if status is None else status
        is_fault = status is not None and status >= 500 and "5xx" in self.statuses
        return (is_fault or key in self.statuses) and self.search(words) is not None

    def search(self, words: str) -> re.Match[str] | None:
        """The match of a pattern in the words, whatever the status; None if none matches."""
        flags = re.IGNORECASE | re.DOTALL
        return next(filter(None, (re.search(p, words, flags) for p in self.patterns)), None)


class RequestPart(Value):
    """A part of a request that a model or server may not take."""

    what: str = ""
    """A phrase that names the part to a person."""
    change: str = ""
    """What the person can change, with `{name}` for the provider's name."""
    then: str = ""
    """How kode continues without the part; "" if leaving it out does not help."""


class RefusalTable(Value):
    """The content of `refusals.toml`."""

    status_of_type: Mapping[str, int]
    """The status for a word in an error object that has no number."""
    parts: Mapping[str, RequestPart]
    rules: tuple[RefusalRule, ...]


@functools.cache
def read_table() -> RefusalTable:
    text = Path(__file__).with_name("refusals.toml").read_text("utf-8")
    table = tomllib.loads(text)
    parts = {name: RequestPart(**part) for name, part in table["part"].items()}
    rules = tuple(RefusalRule(**row) for row in table["rule"])
    return RefusalTable(status_of_type=table["status_of_type"], parts=parts, rules=rules)


def find_rule(status: int | None, words: str, api: Api = "") -> RefusalRule | None:
    """The first rule that fits a refusal; None if none does. `status` None: inside a stream."""
    rules = (rule for rule in read_table().rules if rule.api in ("", api))
    return next((rule for rule in rules if rule.fits(status, words)), None)


def names_fault(words: str, means: str) -> bool:
    """Whether the words match a rule with this meaning, whatever the status."""
    return any(rule.means == means and rule.search(words) for rule in read_table().rules)


_SIZE = re.compile(
    r"\bn_ctx\W{1,3}(\d{1,8})|context (?:length|size|window)(?: is| of| only){0,2}\W{1,2}(\d{3,8})",
    re.IGNORECASE,
)
"""Finds the window's size in an overflow error; other numbers there count the request's tokens."""


@contextlib.contextmanager
def translate_errors(endpoint: Endpoint) -> Iterator[None]:
    """Wraps an exchange with a server: whatever it raises becomes an error of kode.

    CancelledError and KeyboardInterrupt pass through.
    """
    try:
        yield
    except KodeError:
        raise
    except Exception as error:
        mine = convert_error(error, endpoint)
        if mine is error.__cause__:
            # Raised by one of our hooks, and wrapped by an SDK.
            raise mine from None
        # A text that contains the key must not travel on in a traceback.
        raise mine from (error if redact(repr(error)) == repr(error) else None)


def convert_error(error: Exception, endpoint: Endpoint) -> ProviderError:
    """Converts an exception of an SDK, its HTTP client or decoding to kode's error."""
    for link in (error, error.__cause__):
        if isinstance(link, ProviderError):
            return link
    status = getattr(error, "status_code", None)
    if isinstance(status, int):  # from a server that issues credentials
        return status_error(status, getattr(error, "body", None) or str(error), {}, endpoint)
    return _transport_error(error, endpoint)


def _transport_error(error: Exception, endpoint: Endpoint) -> ProviderError:
    """The error for an exchange without an answer. Its kind is recognized by class names along the
    chain of causes, because two HTTP clients and two SDKs each have their own classes."""
    chain, url = list(_list_causes(error)), endpoint.shown_url
    names = {kind.__name__ for link in chain for kind in type(link).__mro__}
    # The last cause is the most precise; the SDKs' own text is only "Connection error."
    detail = plain_reason(_clean(next((str(link) for link in reversed(chain) if str(link)), "")))
    if names_fault(detail, "bad_key"):
        return _bad_key_error(None, detail, endpoint)
    detail = "connection refused" if "ConnectionRefusedError" in names else detail.rstrip(".")
    detail = detail or type(chain[-1]).__name__
    if type(chain[-1]).__name__ == "OpenAIError" or "resolve AWS credentials" in detail:
        names.add("NoCredentialsError")  # the SDK could not sign the request
    if "CERTIFICATE_VERIFY_FAILED" in detail:
        names.add("SSLCertVerificationError")
    if names >= {"SSLError", "ConnectError"}:  # while connecting, not in the middle of a stream
        names.add("NoTLS")
    elif names & {*_NO_CONNECTION, "InvalidURL", "ImportError"} and _is_proxied(url):
        names.add("ProxyError")  # an unreachable proxy fails like an unreachable server
    for kinds, kind, key, text in _TRANSPORT:
        if names & kinds:
            fault = kind(text.format(url=url or "(empty)", detail=detail))
            return fault.about(endpoint.setting(key)) if key else fault
    return TransientError(
        f"The connection to {url} was lost ({detail}). "
        "If it keeps happening, check the server and your network."
    )


def _is_proxied(url: str) -> bool:
    """Whether the environment's or the system's proxy settings cover this URL, as in httpx."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    names_proxy = getproxies().keys() & {parts.scheme, "all"}
    return bool(names_proxy) and not proxy_bypass(parts.hostname or "")


_NO_CONNECTION = {"ConnectError", "ConnectionRefusedError", "gaierror", "ConnectTimeout"}
_NO_CREDENTIALS = set(
    "DefaultCredentialsError RefreshError NoCredentialsError PartialCredentialsError "
    "ProfileNotFound TokenRetrievalError".split()
)
"""Errors of the packages that sign requests to clouds: google-auth, botocore."""
_TRANSPORT: Sequence[tuple[set[str], type[ProviderError], str, str]] = (
    ({"ProxyError"}, TransientError, "",
     "The proxy on the way to {url} failed ({detail}). Check ALL_PROXY, HTTP_PROXY, HTTPS_PROXY "
     "and NO_PROXY; one for SOCKS needs the Python package socksio."),
    ({"UnsupportedProtocol", "InvalidURL"}, RefusedError, "base_url",
     "The base URL {url} cannot be used. Give one like https://host/v1."),
    ({"SSLCertVerificationError"}, RefusedError, "base_url",
     "The certificate of {url} was not accepted ({detail}). Check the clock of this machine and "
     "the URL; behind a proxy of your own set SSL_CERT_FILE to its certificate."),
    (_NO_CREDENTIALS, AuthenticationError, "api_key",
     "There are no credentials for {url} ({detail}). Set a key, or log in with the cloud's own "
     "tool (`aws configure`, `gcloud auth application-default login`)."),
    ({"FileNotFoundError"}, RefusedError, "",
     "The certificates that SSL_CERT_FILE names cannot be read ({detail}). Correct or unset it."),
    ({"NoTLS"}, TransientError, "base_url",
     "No encrypted connection to {url} could be made ({detail}). If the server speaks plain HTTP, "
     "write http:// in the base URL."),
    (_NO_CONNECTION, TransientError, "base_url",
     "No server answers at {url} ({detail}). Check that it is running, the base URL, and your "
     "network."),
    ({"TimeoutException", "TimeoutError", "APITimeoutError"}, TransientError,
     "retry.idle_timeout_s",
     "The server at {url} took too long to answer. If it keeps happening, wait longer."),
    ({"LocalProtocolError", "UnicodeEncodeError", "CookieConflict"}, RefusedError, "",
     "The request to {url} could not be written ({detail}). Check the key and the base URL for "
     "stray characters."),
    ({"JSONDecodeError", "DecodingError", "UnicodeDecodeError", "RecursionError"}, TransientError,
     "", "The answer of {url} could not be read: it is cut or not what the wire format demands. If "
     "it keeps happening, check the base URL and the server's log."),
)  # fmt: skip
"""Exception names, the error to raise for them, the setting to change ("" for none), and the
error's text; the first row that fits counts."""


def status_error(
    status: int | None, body: Any, headers: Mapping[str, str], endpoint: Endpoint
) -> ProviderError:
    """The error for a server's refusal: an HTTP status with a body of any shape, or an error object
    inside a stream (`status` None or 200: the object decides)."""
    body = body[0] if isinstance(body, list) and body else body
    message, kinds = _read_error_body(body)
    if status is None or status < 300:
        inside = _status_inside(body)
        status = inside if inside is not None else status
    detail = _clean(message)
    ending = _sentence_end(detail)
    all_words = f"{message} {kinds}".strip()
    url, model = endpoint.shown_url, endpoint.model
    rule, parts = find_rule(status, all_words, endpoint.api), read_table().parts
    means = rule.means if rule is not None else ""

    def refuse(text: str, key: str = "", kind: type[RefusedError] = RefusedError) -> RefusedError:
        error = kind(
            text, status=status, server_text=all_words, part=means if means in parts else ""
        )
        return error.about(endpoint.setting(key)) if key else error

    if status is not None and 300 <= status < 400:
        target = _clean(headers.get("location", "").partition("?")[0])
        text = f"{url} sends requests on to {target or 'another address'} (HTTP {status})"
        return refuse(
            f"{text}, and kode does not follow with the key. If it is right, use it as base URL.",
            "base_url",
        )
    if means == "bound_thinking":
        text = f"{url} did not accept the earlier thinking of {model}{ending}"
        text = f"{text} If it happens again, use another model with /model."
        return refuse(text, kind=ThinkingRefused)
    if means in parts and (part := parts[means]).what:
        change = part.change.format(name=endpoint.name)
        text = f"{model} at {url} does not take {part.what}{ending} {change}."
        is_of_replies = means in ("signatures", "thoughts")
        return refuse(text, kind=ThinkingRefused if is_of_replies else RefusedError)
    if means == "no_route":
        text = f"{url} has no server for this request to {model}{ending}"
        return refuse(
            f"{text} Choose another model with /model, or change what your account there allows."
        )
    if status == 413 or means == "overflow":
        text = f"Context too long for {model}{ending} Start over with less"
        window = _find_window(body, message)
        return ContextOverflow(f"{text}, {LARGER_WINDOW}", status=status, window=window)
    if status == 402 or means == "no_credit":
        text = f"The account behind the key has no credit or quota left{ending}"
        return refuse(f"{text} See the provider's billing page, or use another key.", "api_key")
    if status in (401, 403) or means == "bad_key":
        return _bad_key_error(status, detail, endpoint)
    if means == "retry":
        return TransientError(f"{url} could not read a call of {model}{ending}", status=status)
    if status is not None and (status in (408, 409, 425, 429) or status >= 500):
        what = {429: f"Rate limited by {url}", 529: f"{url} is overloaded"}
        what |= dict.fromkeys((408, 504), f"{url} took too long")
        return TransientError(
            f"{what.get(status, f'{url} failed')} (HTTP {status}){ending}",
            status=status,
            retry_after_s=retry_after_s(headers),
            loading=means == "loading",
        )
    if means == "no_model":
        import difflib

        near = difflib.get_close_matches(model, vendor_models(endpoint.name), n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        text = f"The server at {url} does not know the model {model}{ending}{hint}"
        return refuse(f"{text} Choose another with --model or /model.", "model")
    if status in (404, 405):
        text = f"There is no such endpoint at {url} (HTTP {status}){ending}"
        where = f'set `providers.{endpoint.name}.api` to "chat" in the config. '
        where = f"Where only Chat Completions is spoken, {where}"
        where = where if endpoint.api == "responses" else ""
        text = f"{text} {where}Check the base URL: for most servers it ends in /v1."
        return refuse(text, "base_url")
    if status is None or status < 300:
        # An error in the middle of an answer that blames nobody is mostly transient.
        return TransientError(f"The server ended its answer with an error{ending}", status=status)
    text = f"The server at {url} rejected the request (HTTP {status}){ending}"
    return refuse(f"{text} Retrying will not help: change the request or the settings.")


def web_page_error(endpoint: Endpoint, content_type: str) -> RefusedError:
    """The error for a web page in place of a reply."""
    kind = _clean(content_type) or "text/html"
    return RefusedError(
        f"{endpoint.shown_url} answered with a web page ({kind}) instead of a model's reply. "
        "Check the base URL, and whether a login or a proxy stands in between."
    ).about(endpoint.setting("base_url"))


def missing_key_error(endpoint: Endpoint) -> AuthenticationError:
    """The error for a missing key, or for one that no HTTP header can carry."""
    text = f"There is no key for {endpoint.shown_url}. Set one, or run `kode init`; "
    text += "`kode demo` needs none."
    if endpoint.api_key:
        text = "The key holds characters that no key has (a line break, an accent, a dash of a "
        text += "text processor). Copy it again."
    return AuthenticationError(text).about(endpoint.setting("api_key"))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The pause a server asks for, in seconds: `retry-after-ms`, or `retry-after` as seconds or as
    a date. None if it asks for none, or if the value is invalid."""
    import email.utils

    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1)):
        with contextlib.suppress(ValueError):
            seconds = float(headers.get(name, "")) * unit
            return seconds if math.isfinite(seconds) and seconds >= 0 else None
    with contextlib.suppress(ValueError):
        until = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, until.timestamp() - time.time())
    return None


def _read_error_body(body: Any) -> tuple[str, str]:
    """The message of an error body in any of the shapes servers use; and its types, codes and
    parameters, joined by spaces."""
    if isinstance(body, str):
        if body.lstrip()[:1] != "<":
            return body, ""
        title = re.search(r"<title>([^<]{1,200})", body, re.IGNORECASE)
        return f"a web page, {title[1].strip()!r}" if title else "a web page", ""
    inner = pick(body, "error")
    if isinstance(inner, str) and inner:
        return inner, str(body.get("type") or "")
    error = _error_in(body)
    keys = ("message", "detail", "msg", "error_description")
    message = next((error[key] for key in keys if error.get(key)), "")
    text = message if isinstance(message, str) else json.dumps(message, default=str)
    others = (error.get(key) for key in ("type", "code", "status", "param"))
    return text, " ".join(str(each) for each in others if each is not None)


def _error_in(body: Any) -> Mapping[str, Any]:
    """The error object in a body, else the body itself; {} if neither is an object."""
    inner = pick(body, "error")
    return inner if isinstance(inner, Mapping) else mapping_of(body)


def _status_inside(body: Any) -> int | None:
    """The status that an error object names, as a number or as a word."""
    values = [
        source.get(key)
        for source in (_error_in(body), mapping_of(body))
        for key in ("status", "status_code", "code", "http_status", "type")
    ]
    for value in values:
        if not isinstance(value, bool) and re.fullmatch(r"[45]\d\d", str(value)):
            return int(str(value))
    statuses = read_table().status_of_type
    words = (value.lower() for value in values if isinstance(value, str))
    return next((statuses[word] for word in words if word in statuses), None)


def _find_window(body: Any, message: str) -> int | None:
    """The window's size in tokens, if an overflow error names it."""
    tokens = pick(body, "error", "n_ctx")  # llama.cpp
    if isinstance(tokens, int) and tokens > 0:
        return tokens
    size = _SIZE.search(message)
    return int(size[1] or size[2]) if size else None


def _bad_key_error(status: int | None, detail: str, endpoint: Endpoint) -> AuthenticationError:
    refused = "rejected the API key"
    if status == 403:
        refused = f"does not allow this key to use {endpoint.model}"
    return AuthenticationError(
        f"The server at {endpoint.shown_url} {refused}{_sentence_end(detail)}", status=status
    ).about(endpoint.setting("api_key"))


def _sentence_end(detail: str) -> str:
    """Turns a server's words, if any, into the end of a sentence."""
    if not detail:
        return "."
    return f": {detail}" if detail[-1] in ".!?…" else f": {detail}."


def plain_reason(text: str) -> str:
    """An exception's text without the numbers and file names of Python's own modules."""
    text = re.sub(r"\[Errno -?\d+\] |\[SSL(: \w+)?\] |_ssl\.c:\d+: ", "", text)
    return re.sub(r" \(_ssl\.c:\d+\)", "", text)


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(8):
        # A KodeError here is what the caller was already handling, not a cause of this one.
        if link is None or isinstance(link, KodeError):
            return
        yield link
        link = link.__cause__ or link.__context__


def _clean(text: str) -> str:
    """A server's words, made fit for one terminal line: no control characters, no key, short."""
    text = redact(text[: 4 * MAX_DETAIL_CHARS])
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return shown if len(shown) <= MAX_DETAIL_CHARS else f"{shown[: MAX_DETAIL_CHARS - 1]}…"
