"""A live page on the loopback interface, which is visible only with the token in its address and ends with the search."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from portatile.records import to_json
from portatile.reports.live_view import LiveView, Snapshot

_HOST = "127.0.0.1"
_LAST = 10.0  # seconds after the end in which an open page fetches its last state
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class LivePage:
    """Serves what ``LiveView`` shows. A context manager; ``address`` is where."""

    def __init__(self, live: LiveView, port: int = 0) -> None:
        """Listen on ``port``, or a free one. Raises OSError if it is taken."""
        self._live, self._lock, self._last_seen = live, threading.Lock(), ""
        self._token = secrets.token_urlsafe(24)
        self._server = ThreadingHTTPServer((_HOST, port), _handler(self))
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.address = f"http://{_HOST}:{self.port}/{self._token}/"

    def __enter__(self) -> LivePage:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait(self, patience: float | None = None, tick: float = 0.5) -> bool:
        """Wait until the searches that run, or begin within ``patience`` seconds, have ended and an open page has seen it.

        False if none began. None: for as long as it takes.
        """
        began = time.monotonic()
        while not (view := self.view()).live.ended:
            if not self._live.begun and patience is not None and time.monotonic() - began > patience:
                return False
            time.sleep(tick)
        until = time.monotonic() + _LAST
        while self._last_seen not in ("", view.live.version) and time.monotonic() < until:
            time.sleep(tick)
        return True

    def view(self) -> Snapshot:
        """The present view, for one thread at a time."""
        with self._lock:
            return self._live.poll()

    def answer(self, path: str, host: str) -> tuple[int, str, bytes]:
        """Status, content type and content for a request. ``host`` must be this server's: another site's page has another name."""
        _, _, rest = path.partition("/")
        token, _, name = rest.partition("/")
        if host not in (f"{_HOST}:{self.port}", f"localhost:{self.port}") or not hmac.compare_digest(token.encode(), self._token.encode()):
            return 404, "text/plain", b"not found\n"
        if name not in ("", "state"):
            return 404, "text/plain", b"not found\n"
        view = self.view()
        if name == "state":
            return 200, "application/json", to_json(view.live)
        self._last_seen = view.live.version
        return 200, "text/html; charset=utf-8", view.html.encode()


def _handler(live: LivePage) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, content = live.answer(self.path.partition("?")[0], self.headers.get("Host", ""))
            self.send_response(status)
            for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: the token stands in every address."""

    return Handler
