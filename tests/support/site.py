"""A small web site with pages, files, and files that stall or drip."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.parse import unquote

SLOW_BYTES = 8192
SLOW_SECONDS = 0.03
"""About 270 KB a second."""
HOLD_SECONDS = 240
"""A held file goes on after this, so that no thread stays; longer than any test holds one."""
TYPES = {".ogg": "audio/ogg", ".mp3": "audio/mpeg", ".mp4": "video/mp4", ".html": "text/html"}


class Site:
    """Serves files, and pages a test registers."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.pages: dict[str, tuple[int, str, bytes]] = {}
        """By path: status, content type, body."""
        self.release = Event()
        """Under /held/, and /slow/, which drips, a file stops at two thirds until this is set."""

    def page(self, path: str, body: bytes, content_type: str, status: int = 200) -> str:
        """Registers a page and returns its address."""
        self.pages[path] = (status, content_type, body)
        return f"{self.url}{path}"


class Handler(BaseHTTPRequestHandler):
    """Serves the site of its server."""

    server: "SiteServer"

    def do_HEAD(self) -> None:
        self._send_head(*self._find())

    def do_GET(self) -> None:
        status, content_type, body = self._find()
        self._send_head(status, content_type, body)
        if self.path.startswith(("/held/", "/slow/")):
            hold_at = len(body) * 2 // 3
            drop = SLOW_BYTES if self.path.startswith("/slow/") else hold_at
            for begin in range(0, hold_at, drop):
                self.wfile.write(body[begin : min(begin + drop, hold_at)])
                self.wfile.flush()
                self.server.site.release.wait(SLOW_SECONDS)
            self.server.site.release.wait(HOLD_SECONDS)
            body = body[hold_at:]
        self.wfile.write(body)

    def _send_head(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()

    def _find(self) -> tuple[int, str, bytes]:
        site = self.server.site
        if self.path in site.pages:
            return site.pages[self.path]
        file = site.folder / Path(unquote(self.path)).name
        if self.path.startswith(("/files/", "/held/", "/slow/")) and file.is_file():
            return 200, TYPES[file.suffix], file.read_bytes()
        return 404, "text/plain", b"nothing here"

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class SiteServer(ThreadingHTTPServer):
    """Serves one site; clients that hang up are ignored."""

    daemon_threads = True
    site: Site

    def handle_error(self, request: object, client_address: object) -> None:
        """Quiet."""


@contextmanager
def serving(folder: Path) -> Iterator[Site]:
    """Serves until the block ends."""
    server = SiteServer(("127.0.0.1", 0), Handler)
    site = server.site = Site(f"http://127.0.0.1:{server.server_address[1]}", folder)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield site
    finally:
        site.release.set()
        server.shutdown()
        server.server_close()
