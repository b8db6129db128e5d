"""What a model still needs before it can listen: told by one thread, read by any other."""

from collections.abc import Callable
from time import monotonic

from structlog import get_logger

from mesh.errors import UnavailableError
from mesh.reasons import Reason
from transcriber.engine import Phase, Preparing

log = get_logger(__name__)

SECONDS_BETWEEN_LINES = 5.0

Fetched = Callable[[str, int, int | None], None]
"""Is told a model's name, the bytes that are here, and the bytes in all once they are known."""


class Preparation:
    """How far the first load is."""

    def __init__(self) -> None:
        self.now = Preparing("", Phase.LOADING)
        self._abandoned = False
        self._next_line = 0.0

    def fetching(self, model: str, done_bytes: int, total_bytes: int | None) -> None:
        """More of the weights is here; raises if nobody wants them any more."""
        if self._abandoned:
            raise UnavailableError("the service stops", reason=Reason.STAGE_UNAVAILABLE)
        self.now = Preparing(model, Phase.FETCHING, done_bytes, total_bytes)
        if monotonic() >= self._next_line:
            self._next_line = monotonic() + SECONDS_BETWEEN_LINES
            log.info("fetching model", model=model, done_bytes=done_bytes, total_bytes=total_bytes)

    def loading(self, model: str) -> None:
        """The weights are here."""
        self.now = Preparing(model, Phase.LOADING)

    def abandon(self) -> None:
        """A fetch under way ends with its next piece."""
        self._abandoned = True
