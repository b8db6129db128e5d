"""What happens to something, as server-sent events: resumable, bounded, patient."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

from structlog import get_logger

from gateway.mailbox import ClosedError, Mailbox
from gateway.story_events import BEGINNING, HEARTBEAT
from mesh.errors import MeshError

log = get_logger(__name__)

HEARTBEAT_SECONDS = 15.0

UpdateT = TypeVar("UpdateT")


class Stream(ABC, Generic[UpdateT]):
    """What one client is told, until it leaves."""

    def __init__(
        self,
        subject_id: str,
        updates: AsyncGenerator[UpdateT, None],
        live: Callable[[UpdateT], int | None],
    ) -> None:
        self._subject_id = subject_id
        self._mail = Mailbox(updates, live)
        self._held: list[UpdateT] = []
        self._stopped = False

    async def begin(self) -> None:
        """Waits for the first update; fails as the watch does."""
        self._mail.open()
        while not self._held:
            self._held += await self._mail.next(HEARTBEAT_SECONDS)

    def stop(self) -> None:
        """Breaks it off; the client will come back to somebody else."""
        self._stopped = True
        self._mail.close()

    async def told(self) -> AsyncGenerator[bytes, None]:
        """Everything as it goes to the client; ends with the end, or when it is stopped."""
        yield BEGINNING
        self._mail.open()
        try:
            waiting = self._held
            while True:
                # What came together goes out together.
                if told := b"".join(map(self._tell, waiting)):
                    yield told
                waiting = await self._mail.next(HEARTBEAT_SECONDS)
                if not waiting:
                    yield HEARTBEAT
        except ClosedError:
            if not self._stopped and (ending := await self._ending()):
                yield ending
        except MeshError as error:
            # The client comes back and hears why.
            log.info("a stream broke off", id=self._subject_id, error=str(error))
        finally:
            self._mail.close()

    @abstractmethod
    def _tell(self, update: UpdateT) -> bytes:
        """The update as events; nothing if the client need not know."""

    async def _ending(self) -> bytes:
        """The last event, of what has an end."""
        return b""


class Story(Stream[UpdateT]):
    """One client's way through something that ends."""

    async def has_more(self) -> bool:
        """Whether there is anything after where the client is, of what has ended."""
        self._mail.open()
        try:
            while not any(map(self._is_news, self._held)):
                self._held += await self._mail.next(HEARTBEAT_SECONDS)
        except ClosedError:
            return False
        return True

    @abstractmethod
    def _is_news(self, update: UpdateT) -> bool:
        """Whether a client that has heard the end has not heard this."""

    @abstractmethod
    async def _ending(self) -> bytes:
        """The last event."""
