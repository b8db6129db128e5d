"""Base class of the tasks a child process runs: it opens a yt-dlp client and sends messages."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from downloader.child.guard import Guard
from downloader.child.ytdlp_client import YtDlpClient
from downloader.commands import Command

Send = Callable[..., None]
"""Sends one message to the service: its kind, then its fields as keywords."""
ClientT = TypeVar("ClientT", bound=YtDlpClient)
CommandT = TypeVar("CommandT", bound=Command)

MIN_SECRET_LENGTH = 4
"""Redacting shorter strings would blot out ordinary words."""


class ChildTask(Generic[CommandT]):
    """One command at work; subclasses know what to ask the site for."""

    def __init__(self, command: CommandT, guard: Guard, send: Send) -> None:
        self.send = send
        self._command = command
        self._guard = guard
        self._client: YtDlpClient | None = None
        self.has_site_metadata = False
        """Whether an extractor made for the site has already described the recording."""

    def run(self) -> dict[str, Any]:
        """Runs the task and returns the fields of the `done` message."""
        raise NotImplementedError

    def open_client(self, kind: type[ClientT], **options: Any) -> ClientT:
        """A yt-dlp client of the given class, configured for this task."""
        client = kind(self._command.client_options, self._guard, **options)
        self._client = client
        return client

    @property
    def retry_after(self) -> float | None:
        """Seconds the site asked us to wait."""
        return self._client.retry_after if self._client else None

    def without_secrets(self, text: str) -> str:
        """The text with cookies and the proxy's credentials redacted."""
        proxy = urlsplit(self._command.client_options.proxy)
        secrets = [proxy.username, proxy.password]
        if self._client:
            secrets += self._client.secrets()
        for secret in filter(None, secrets):
            if len(secret) >= MIN_SECRET_LENGTH:
                text = text.replace(secret, "***")
        return text
