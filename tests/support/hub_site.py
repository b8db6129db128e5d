"""A model hub on loopback that can pause and drop downloads; speaks enough for the real client."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PIECE = 256 * 1024


@dataclass
class HubSite:
    """One repository, served under every name."""

    folder: Path
    url: str = ""
    hold_at: int | None = None
    """Bytes of model.bin after which nothing more comes until `go_on`."""
    go_on: threading.Event = field(default_factory=threading.Event)
    break_at: int | None = None
    """Bytes of model.bin after which the connection is dropped."""
    breaks: int = 1000
    """How often."""
    status_after_break: int | None = None
    """Status of a resumed request; None: the connection is dropped again."""
    ranges: list[str] = field(default_factory=list)
    """`Range` headers of the requests for model.bin."""
    revisions: set[str] = field(default_factory=set)
    """The branches and commits that were asked for."""

    @property
    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.is_file())

    @property
    def total(self) -> int:
        return sum(path.stat().st_size for path in self.files)


@contextmanager
def serving_hub(folder: Path) -> Iterator[HubSite]:
    site = HubSite(folder)

    class Handler(_Handler):
        hub = site

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield site
    finally:
        site.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


class _Handler(BaseHTTPRequestHandler):
    hub: HubSite
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: object) -> None:
        """Tests are silent."""

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        if asked := re.search("/(?:revision|tree|resolve)/([^/]+)", path):
            self.hub.revisions.add(asked[1])
        if "/resolve/" in path:
            self._send_file(self.hub.folder / path.rpartition("/")[2], with_body=with_body)
        elif "/revision/" in path:
            self._send_json({"id": "any/model", "sha": COMMIT, "siblings": []})
        elif "/tree/" in path:
            self._send_json([_entry(file) for file in self.hub.files])
        else:
            self._send_json({})

    def _send_json(self, found: object) -> None:
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send_file(self, file: Path, *, with_body: bool) -> None:
        asked = self.headers.get("Range", "")
        begin = int(asked.removeprefix("bytes=").partition("-")[0]) if asked else 0
        size = file.stat().st_size
        is_model = file.name == "model.bin" and with_body
        if is_model:
            self.hub.ranges.append(asked)
        if is_model and begin and self.hub.break_at and self.hub.status_after_break:
            self.send_response(self.hub.status_after_break)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {begin}-{size - 1}/{size}")
        self.send_header("Content-Length", str(size - begin))
        self.send_header("ETag", f'"{_etag(file)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if with_body:
            self._send_body(file, begin, is_model=is_model)

    def _send_body(self, file: Path, begin: int, *, is_model: bool) -> None:
        at = begin
        with file.open("rb") as source:
            source.seek(begin)
            while piece := source.read(PIECE):
                if is_model and self.hub.hold_at is not None and at >= self.hub.hold_at:
                    self.hub.go_on.wait(60)
                if is_model and self._is_to_break(at):
                    self.close_connection = True
                    return
                with suppress(ConnectionError):  # the client disconnected
                    self.wfile.write(piece)
                at += len(piece)

    def _is_to_break(self, at: int) -> bool:
        if self.hub.break_at is None or at < self.hub.break_at or not self.hub.breaks:
            return False
        self.hub.breaks -= 1
        return True


def _entry(file: Path) -> dict[str, object]:
    return {
        "type": "file",
        "path": file.name,
        "size": file.stat().st_size,
        "oid": _etag(file),
    }


def _etag(file: Path) -> str:
    stat = file.stat()
    return hashlib.sha1(  # noqa: S324 # a name, as git has them
        f"{file.name} {stat.st_size} {stat.st_mtime_ns}".encode()
    ).hexdigest()
