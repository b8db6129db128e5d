"""Starts a collection for every event that asks for one; keeps those that never can."""

from typing import Protocol

from nats.aio.msg import Msg
from nats.js import api
from structlog import get_logger
from structlog.contextvars import bound_contextvars

from mesh.bus import Bus
from mesh.errors import MeshError, UnavailableError
from mesh.reasons import Reason
from orchestrator.deadletters import DeadLetters
from orchestrator.heralds.incoming import Incoming
from orchestrator.heralds.letters import event_letter
from orchestrator.heralds.reading import read, readable_correlation
from orchestrator.shared_pull import SharedPull, acknowledge, put_back
from ytcaption.v1 import collection_pb2, collection_service_pb2

log = get_logger(__name__)

ACK_WAIT_SECONDS = 30.0
RETRY_SECONDS = 0.5
RETRY_LIMIT_SECONDS = 60.0
MAX_FAULTS = 10
"""An event on which our own code fails so often is given up."""


class Starting(Protocol):
    """Whoever accepts collections."""

    async def create(
        self, request: collection_service_pb2.CreateCollectionRequest
    ) -> collection_pb2.Collection:
        """Durable when it returns; once for each request_id."""


class Inbox:
    """Shared by all replicas: each event goes to one of them at a time."""

    def __init__(self, bus: Bus, collections: Starting) -> None:
        self._collections = collections
        self._letters = DeadLetters(bus)
        self._pull = SharedPull(
            bus,
            bus.names.inbox_stream,
            api.ConsumerConfig(
                durable_name="inbox",
                ack_policy=api.AckPolicy.EXPLICIT,
                ack_wait=ACK_WAIT_SECONDS,
                max_ack_pending=1000,
            ),
        )

    async def keep_receiving(self) -> None:
        """One event after another, until cancelled."""
        async for message in self._pull.messages():
            await self._take(message)

    async def _take(self, message: Msg) -> None:
        """Acknowledged only once its collection or its letter is stored."""
        incoming = Incoming.of(message)
        try:
            correlation_id = readable_correlation(incoming)
            with bound_contextvars(correlation_id=correlation_id):
                await self._start(incoming, correlation_id)
        except Exception as error:
            if not isinstance(error, MeshError):
                log.exception("an event made us fail", sequence=incoming.sequence)
            else:
                log.warning("an event has to wait", reason=error.reason, error=str(error))
            await put_back(message, _delay(incoming.deliveries))
        else:
            await acknowledge(message)

    async def _start(self, incoming: Incoming, correlation_id: str) -> None:
        """Raises what may pass; what cannot is kept as a letter."""
        try:
            request = read(incoming)
            collection = await self._collections.create(request)
        except MeshError as error:
            if may_pass(error):
                raise
            await self._bury(incoming, error.reason, str(error), correlation_id)
        except Exception as error:
            if incoming.deliveries < MAX_FAULTS:
                raise
            told = f"a fault of ours: {type(error).__name__}"
            await self._bury(incoming, Reason.INTERNAL, told, correlation_id)
        else:
            log.info("an event started a collection", collection_id=collection.collection_id)

    async def _bury(
        self, incoming: Incoming, reason: Reason, message: str, correlation_id: str
    ) -> None:
        letter = event_letter(incoming, reason, message, correlation_id)
        await self._letters.keep(letter)
        log.warning("an event starts nothing", reason=reason, letter_id=letter.letter_id)


def may_pass(error: MeshError) -> bool:
    """Whether the same event may start a collection later."""
    unavailable = isinstance(error, UnavailableError)
    return unavailable or error.retryable or error.reason == Reason.STORAGE_FULL


def _delay(deliveries: int) -> float:
    return min(RETRY_LIMIT_SECONDS, RETRY_SECONDS * 2.0 ** min(deliveries - 1, 16))
