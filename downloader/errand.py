"""What a child is sent for: to visit a site and to say what it found there."""

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from downloader.guard import Guard
from downloader.order import Order
from downloader.visitor import Visitor

Say = Callable[..., None]
V = TypeVar("V", bound=Visitor)

LEAST_SECRET = 4
"""Shorter words than this would be found, and blotted out, everywhere."""


class Errand:
    """Subclasses know what to do at the site."""

    def __init__(self, order: Order, guard: Guard, say: Say) -> None:
        self.say = say
        self._manner = order.manner
        self._guard = guard
        self._visitor: Visitor | None = None
        self.is_of_a_known_site = False
        """Whether an extractor made for the site has described the recording already."""

    def run(self) -> dict[str, Any]:
        """Does it, and returns the last facts."""
        raise NotImplementedError

    def visit(self, kind: type[V], **options: Any) -> V:
        """A yt-dlp for this errand."""
        visitor = kind(self._manner, self._guard, **options)
        self._visitor = visitor
        return visitor

    @property
    def retry_after(self) -> float | None:
        """Seconds the site asked us to stay away."""
        return self._visitor.retry_after if self._visitor else None

    def without_secrets(self, text: str) -> str:
        """The text, but no cookie and no password of a proxy."""
        proxy = urlsplit(self._manner.proxy)
        secrets = [proxy.username, proxy.password]
        if self._visitor:
            secrets += self._visitor.secrets()
        for secret in filter(None, secrets):
            if len(secret) >= LEAST_SECRET:
                text = text.replace(secret, "***")
        return text
