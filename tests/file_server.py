"""A real HTTP server for one file, which can be told to misbehave."""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class FileServer:
    content: bytes
    etag: str | None = '"v1"'
    ranges: bool = True
    heeds_if_range: bool = True
    tells_length: bool = True
    cuts: list[int] = field(default_factory=list)  # after how many bytes the next answers break off
    statuses: list[int] = field(default_factory=list)  # what the next answers are instead
    location: str | None = None
    slow: float = 0.0  # seconds between blocks
    requests: list[dict[str, str]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)  # bytes of body, by answer
    certificate: Path | None = None

    def __enter__(self) -> FileServer:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if self.certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http{'s' if self.certificate else ''}://127.0.0.1:{self._server.server_address[1]}/file.bin"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.requests.append(dict(self.headers))
                server.answer(self)

            def log_message(self, format, *args):
                pass

        return Handler

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        if self.location or self.statuses:
            handler.send_response(302 if self.location else self.statuses.pop(0))
            handler.send_header("Location", self.location or "")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        start = self._start(handler)
        if start > len(self.content) or (start and start == len(self.content)):
            handler.send_error(416)
            return
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        if self.etag:
            handler.send_header("ETag", self.etag)
        if self.tells_length:
            handler.send_header("Content-Length", str(len(self.content) - start))
        handler.end_headers()
        self._send(handler, self.content[start:])

    def _start(self, handler: BaseHTTPRequestHandler) -> int:
        asked = handler.headers.get("Range")
        same = not self.heeds_if_range or handler.headers.get("If-Range") == self.etag
        return int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.ranges and same else 0

    def _send(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        body = body[: self.cuts.pop(0)] if self.cuts else body
        mine = len(self.sent)  # an earlier answer may still be going out
        self.sent.append(0)
        pause = threading.Event()
        try:
            for i in range(0, len(body), 1 << 14):
                handler.wfile.write(body[i : i + (1 << 14)])
                self.sent[mine] += len(body[i : i + (1 << 14)])
                if self.slow:
                    pause.wait(self.slow)
        except OSError:
            pass  # the client is gone
