"""`fetch_url`: fetches the text of a public web page, never of the local network, whose services
often trust local clients.

Each request goes to exactly the address that was judged, so that a name cannot resolve to another
one in between; the request and the TLS handshake still use the host's name.
"""

import asyncio
import codecs
import contextlib
import ipaddress
import json
import re
import socket
from typing import TYPE_CHECKING, NamedTuple

from kode import __version__
from kode.errors import ToolError
from kode.installed import require_extra
from kode.plain_text import escape_path
from kode.tool import ToolContext, ToolOutput, tool
from kode.tools import files, page as page_worker
from kode.tools.processes import ask_worker

if TYPE_CHECKING:
    import httpx2

MAX_TEXT_BYTES = 50 * 1024  # as `read_file`
MAX_BODY_BYTES = 5 * 1024 * 1024
"""Only this much of a longer body is read, after decompression."""
MAX_REDIRECTS = 5  # a login or two; more is a circle
TIMEOUT_S = 30.0  # a slow page, but no dead one

_REDIRECTS = (301, 302, 303, 307, 308)
_HTML = ("text/html", "application/xhtml+xml")
_TEXTUAL = re.compile(
    r"text/.*|.*\+(json|xml|yaml)|"
    r"application/(json|xml|javascript|ecmascript|(x-)?yaml|toml|x-sh|sql|x-ndjson)|"
)
_CODECS = re.compile(
    r"ascii|utf-8(-sig)?|utf-(16|32)(-[lb]e)?|iso8859-\d+|cp\d+|koi8-[ru]|mac-(roman|cyrillic)|"
    r"gb(2312|k|18030)|big5(hkscs)?|euc_(jp|kr)|shift_jis|iso2022_jp"
)
"""Python's names of the codecs that pages are written in. Some others raise, take quadratic time,
or do not decode text."""

_CHARSET_TAG = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([A-Za-z0-9_-]+)")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_METADATA = {ipaddress.ip_address(text) for text in ("169.254.169.254", "168.63.129.16")}
"""Where clouds hand out credentials. The second is in public address space."""

_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


def explain_refusal(address: Address) -> str:
    """Why an address is not visited; "" for a public one."""
    addresses: list[Address] = [address]
    if isinstance(address, ipaddress.IPv6Address):
        embedded = (address.ipv4_mapped, address.sixtofour, *(address.teredo or ()))
        addresses += filter(None, embedded)
        if any(address in network for network in _NAT64) or int(address) >> 32 == 0:
            addresses.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    for each in addresses:
        if each in _METADATA:
            return "it is a cloud's metadata address"
        if each.is_loopback:
            return "it is this machine itself"
        is_special = each.is_multicast or each.is_unspecified or each.is_reserved
        if is_special or not each.is_global or getattr(each, "is_site_local", False):
            return "it is not a public address"
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        # Sends nothing. The route to an address of this machine starts at that same address.
        if probe.connect_ex((str(address), 9)) == 0 and probe.getsockname()[0] == str(address):
            return "it is this machine itself"
    return ""


async def resolve_host(host: str) -> list[Address]:
    """All addresses of a host name, or of an address in any spelling. Raises: OSError."""
    rows = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    # A zone (`fe80::1%eth0`) names a link; such an address is refused in any case.
    texts = dict.fromkeys(str(row[4][0]).split("%")[0] for row in rows)
    return [ipaddress.ip_address(text) for text in texts]


class Page(NamedTuple):
    url: str
    """The final URL, after redirects."""
    title: str
    text: str
    cut: bool
    """Whether the body was truncated."""


@tool(effect="fetch", subject="url", parallel=True)
async def fetch_url(context: ToolContext, url: str) -> ToolOutput:
    """Fetch a public web page as text, up to 50 KB."""
    page = await fetch_page(url)
    data = page.text.encode("utf-8", "replace")
    text = data[: min(MAX_TEXT_BYTES, context.room)].decode("utf-8", "ignore")
    parts = [page.url if page.url != url else "", page.title, text or "(the page has no text)"]
    if page.cut or len(text.encode()) < len(data):
        parts.append("[The page is longer: only its beginning is shown.]")
    return ToolOutput(
        text="\n\n".join(filter(None, parts)),
        summary=f"{len(text):,} characters",
        untrusted=url,
    )


async def fetch_page(url: str) -> Page:
    """Fetches a page as text. Raises: ToolError if it is forbidden, unavailable, or not text."""
    import httpx2

    ends_at, page_url, untrusted = asyncio.get_running_loop().time() + TIMEOUT_S, url, ""
    # trust_env=False: a proxy from the environment would resolve the name again by itself.
    client = httpx2.AsyncClient(trust_env=False, follow_redirects=False, timeout=TIMEOUT_S)
    try:
        async with asyncio.timeout_at(ends_at), client:
            for _ in range(MAX_REDIRECTS + 1):
                target = _parse_url(page_url)
                addresses = await _resolve_allowed(target)
                async with contextlib.aclosing(await _send(client, target, addresses)) as response:
                    # From here on an error may quote the server (its status line, headers, or the
                    # target of a redirect).
                    untrusted = page_url
                    location = response.headers.get("location")
                    if response.status_code not in _REDIRECTS or location is None:
                        page, is_html = await _read_response(page_url, response)
                        break
                page_url = _resolve_redirect(target, location)
            else:
                raise ToolError(
                    f"{page_url}: more than {MAX_REDIRECTS} redirects. Fetch the final page itself."
                )
    except TimeoutError:
        raise ToolError(
            f"{url} did not answer within {TIMEOUT_S:g} s: try later, or another source."
        ) from None
    except ToolError as error:
        raise ToolError(str(error), untrusted=error.untrusted or untrusted) from None
    if not is_html:
        return page
    require_extra("web", ToolError)
    question, answer = json.dumps({"html": page.text, "url": page_url}).encode(), None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(ends_at):
            answer = await ask_worker(page_worker.__file__, question)
    if answer is None:
        raise ToolError(
            f"{page_url} came, but its HTML is too large or too deeply nested to make text of: "
            "try another source, or download the file with a shell command.",
            untrusted=page_url,
        )
    title, text = json.loads(answer)
    return page._replace(title=title, text=text)


def _parse_url(url: str) -> "httpx2.URL":
    import httpx2

    try:
        target = httpx2.URL(url.strip())
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError(f"{url!r} is not a URL: {error}. Give one with https://.") from None
    if target.scheme not in ("http", "https") or not target.host:
        raise ToolError(f"{url!r} cannot be fetched: only http:// and https:// URLs with a host.")
    if target.port is not None and not 0 < target.port < 65536:
        raise ToolError(f"{url!r} is not a URL: there is no port {target.port}. Leave it out.")
    if target.userinfo:
        raise ToolError("The URL has a user name or password in it: give it without.")
    return target


def _resolve_redirect(base: "httpx2.URL", location: str) -> str:
    """The target of a redirect on the same host. The gate allowed only this host: a rule may deny
    another one, and a chain of redirects could leak data to it. Raises: ToolError."""
    import httpx2

    try:
        target = _parse_url(str(base.join(location)))
    except (httpx2.InvalidURL, ValueError):
        raise ToolError(
            f"{base} redirects to {location[:200]!r}, which is not a URL: try another source."
        ) from None
    if (target.raw_host.lower(), target.port) != (base.raw_host.lower(), base.port):
        raise ToolError(
            f"{base} redirects to another host, which is not followed. "
            f"To read it, fetch this URL itself: {escape_path(str(target))[:2000]}"
        )
    return str(target)


async def _resolve_allowed(target: "httpx2.URL") -> list[Address]:
    """The host's addresses. Raises: ToolError unless all of them may be visited."""
    problem = " has no address"
    try:
        addresses = await resolve_host(_url_host(target))
    except (OSError, UnicodeError, ValueError) as error:
        addresses, problem = [], f" was not found ({error})"
    if not addresses:
        raise ToolError(f"The host {target.host}{problem}: check the spelling of the URL.")
    for address in addresses:
        if reason := explain_refusal(address):
            raise ToolError(
                f"{target.host} is at {address}, which fetch_url does not visit: {reason}. "
                "For a server on this machine use a shell command."
            )
    return addresses


def _url_host(target: "httpx2.URL") -> str:
    return target.raw_host.decode("ascii").strip("[]")


async def _send(
    client: "httpx2.AsyncClient", target: "httpx2.URL", addresses: list[Address]
) -> "httpx2.Response":
    """The response of the first address that answers. Raises: ToolError if none does."""
    import httpx2

    headers = {
        "Host": target.netloc.decode("ascii"),
        "User-Agent": f"kode/{__version__}",
        "Accept": "text/html, text/*, application/json, application/xml;q=0.9, */*;q=0.1",
        "Accept-Encoding": "gzip",
    }
    extensions = {"sni_hostname": _url_host(target)}
    fault = untrusted = ""
    for address in addresses[:4]:
        url = target.copy_with(host=str(address), fragment=None)
        request = client.build_request("GET", url, headers=headers, extensions=extensions)
        try:
            return await client.send(request, stream=True)
        except httpx2.HTTPError as error:
            fault = str(error)
            if not isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
                untrusted = str(target)  # the error quotes what the server said instead of HTTP
                break
    raise ToolError(
        f"{target} could not be fetched: {fault or 'no answer'}. "
        "Check the URL, or try another source.",
        untrusted=untrusted,
    )


async def _read_response(url: str, response: "httpx2.Response") -> tuple[Page, bool]:
    """The text of a response, and whether it is HTML."""
    import httpx2

    if response.status_code >= 400:
        raise ToolError(
            f"{url} answered {response.status_code} {response.reason_phrase}: "
            "check the URL, or try another source."
        )
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not _TEXTUAL.fullmatch(kind):
        size = response.headers.get("content-length", "")
        raise _text_error(url, f"{kind}, {int(size):,} bytes" if size.isdecimal() else kind)
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity", "gzip", "deflate"):
        raise ToolError(f"{url} is compressed as {coding}, which was not asked for: try another.")
    data = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            data += chunk
            if len(data) > MAX_BODY_BYTES:
                break
    except httpx2.HTTPError as error:
        raise ToolError(f"{url} broke off: {error or type(error).__name__}. Try again.") from None
    is_cut = len(data) > MAX_BODY_BYTES
    codec = _find_codec(response.charset_encoding or "")
    if not codec and kind in _HTML and (tag := _CHARSET_TAG.search(data[:4096])):
        codec = _find_codec(tag[1].decode("ascii"))
    text = _decode_page(url, bytes(data[:MAX_BODY_BYTES]), codec, is_cut=is_cut)
    is_html = kind in _HTML or (not kind and text.lstrip()[:200].lower().startswith("<!doctype"))
    return Page(url, "", text, is_cut), is_html


def _text_error(url: str, what: str) -> ToolError:
    return ToolError(
        f"{url} is not text ({what}): fetch_url reads text only. "
        "To have the file, download it with a shell command."
    )


def _decode_page(url: str, data: bytes, codec: str, *, is_cut: bool) -> str:
    if codec:
        return data.decode(codec, "replace")
    with contextlib.suppress(UnicodeDecodeError):
        return data.decode("utf-8", "ignore" if is_cut else "strict")
    try:
        return files.decode_text(data)[0]
    except files.Binary as reason:
        raise _text_error(url, str(reason)) from None


def _find_codec(charset: str) -> str:
    """The codec for a charset's name; "" for one that pages are not written in."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):  # some strings cannot be codec names at all
        return ""
    return name if _CODECS.fullmatch(name) else ""
