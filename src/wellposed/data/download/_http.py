"""One GET request: what to resume from, and what a server's answer to it means."""

from __future__ import annotations

import http.client
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from wellposed.errors import DataError

TIMEOUT = 30.0  # seconds without a byte, not for the whole file
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}  # a server that is busy, or restarts: worth another attempt


class BrokenConnection(Exception):
    """The connection did not come about or did not last; another attempt may do better."""


class StartOver(Exception):
    """What is here already is of no use for the rest of the file."""


class Answer:
    """A response to a request for the bytes from ``start`` on; ``start`` is zero where the whole file is sent."""

    def __init__(self, response: http.client.HTTPResponse, asked_from: int) -> None:
        self._response = response
        self.start, self.total = _extent(response, asked_from)
        self.validator = _validator(response.headers)

    def blocks(self) -> Iterator[bytes]:
        """The body, as it arrives."""
        while block := self._read():
            yield block

    def _read(self) -> bytes:
        try:
            return self._response.read1(1 << 18)
        except (OSError, http.client.HTTPException) as error:
            raise BrokenConnection(f"the connection broke: {error or type(error).__name__}") from None


@contextmanager
def get(url: str, *, start: int = 0, validator: str | None = None) -> Iterator[Answer]:
    """Ask for ``url`` from byte ``start`` on, provided that it is still the version that ``validator`` names."""
    headers = {"User-Agent": "wellposed", "Accept-Encoding": "identity"}
    if start and validator:
        headers |= {"Range": f"bytes={start}-", "If-Range": validator}
    with _open(Request(url, headers=headers)) as response:
        answer = Answer(response, start if "Range" in headers else 0)
        if answer.start and answer.validator not in (None, validator):
            raise StartOver(f"{url} changed, and its server did not heed If-Range")
        yield answer


def check_url(url: str) -> str:
    """The URL, where it is one to fetch from."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DataError(f"cannot fetch {url}: only http:// and https:// addresses are fetched")
    return url


class _Redirects(HTTPRedirectHandler):
    """Follow redirections, except those that give up encryption or leave the web."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            fp.close()
            raise DataError(
                f"{req.full_url} redirects to {newurl}, which is not encrypted: not followed; "
                "fetch the file by hand and check its checksum"
            )
        return super().redirect_request(req, fp, code, msg, headers, check_url(newurl))


def _open(request: Request) -> Any:
    try:
        return build_opener(_Redirects()).open(request, timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        raise _refusal(request.full_url, error) from None
    except URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise DataError(
                f"{request.full_url} shows a certificate that cannot be trusted ({error.reason.verify_message}): check "
                "this machine's clock and certificates"
            ) from None
        raise BrokenConnection(f"cannot connect: {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise BrokenConnection(f"cannot connect: {error or type(error).__name__}") from None


def _refusal(url: str, error: HTTPError) -> Exception:
    if error.code == 416:
        return StartOver(f"{url} has no such bytes")
    if error.code in _TRANSIENT:
        return BrokenConnection(f"the server answers {error.code} {error.reason}")
    return DataError(
        f"{url} answers {error.code} {error.reason}: the file has moved or is not given out any more; look for it on "
        "its publisher's page"
    )


def _extent(response: http.client.HTTPResponse, asked_from: int) -> tuple[int, int | None]:
    """Where the body starts in the file, and how long the file is where the server says so."""
    if response.status != 206:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else None
    range_ = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", response.headers.get("Content-Range", ""))
    if not range_ or int(range_[1]) != asked_from or int(range_[2]) + 1 != int(range_[3]):
        raise StartOver(f"the server sends another range than the one from {asked_from} on")
    return asked_from, int(range_[3])


def _validator(headers: Message) -> str | None:
    """What names this version of the file; a weak ETag may not be used with ranges (RFC 9110, 13.1.5)."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified")
