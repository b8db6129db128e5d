"""The inbox: starts a collection for each event, and takes the results of tasks.

An invalid event is answered, and a dead letter.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from google.protobuf.timestamp import from_current_time
from nats.aio.msg import Msg
from structlog import get_logger
from structlog.contextvars import bound_contextvars

from mesh.bus import Bus
from mesh.errors import InvalidRequestError, MeshError, UnavailableError
from mesh.reasons import RETRYABLE, Reason
from orchestrator.events.outbox import publish_event
from orchestrator.events.parsing import (
    JSON_FORM,
    MESSAGE_ID,
    PROTOBUF_FORM,
    RESULTS,
    START_EXECUTION,
    Incoming,
    read,
    read_message,
    readable_correlation,
)
from orchestrator.events.rendering import refused
from orchestrator.events.source_types import NothingNamedError
from orchestrator.jobs.dead_letters import DeadLetters
from orchestrator.queue.consumers import Consumer
from orchestrator.worker.retry import Backoff
from ytcaption.v1 import collection_pb2, job_pb2
from ytcaption.v1.collection_service_pb2 import CreateCollectionRequest

log = get_logger(__name__)

ACK_WAIT_SECONDS = 30.0
BACKOFF = Backoff(first=0.5, limit=60)
MAX_FAULTS = 10
"""An event that makes our own code fail this often becomes a dead letter."""
MAX_CONTENT = 64 * 1024
MAX_MESSAGE = 2000
ANSWERS: dict[str, Literal["resultado_coleta", "resultado_execucao"]] = {
    JSON_FORM: "resultado_coleta",
    PROTOBUF_FORM: "resultado_coleta",
    START_EXECUTION: "resultado_execucao",
}
"""The kind of message that says what became of a request."""


CreateCollection: TypeAlias = Callable[
    [CreateCollectionRequest], Awaitable[collection_pb2.Collection]
]
"""Starts a collection, which is durable when it returns; once for each request_id."""
TakeResult: TypeAlias = Callable[[str, str, dict[str, Any]], Awaitable[bool]]
"""Stores a result, by its kind, correlation id and payload; False if no task waits for it."""


class Inbox(Consumer):
    """Shared by all replicas: each event goes to one of them at a time."""

    def __init__(
        self,
        bus: Bus,
        create: CreateCollection,
        take_result: TakeResult,
        dead_letters: DeadLetters,
    ) -> None:
        self._create = create
        self._take_result = take_result
        self._dead_letters = dead_letters
        super().__init__(
            bus,
            bus.names.inbox_stream,
            "inbox",
            ACK_WAIT_SECONDS,
            max_ack_pending=1000,
            retry_after=lambda message, _: BACKOFF.delay(message.metadata.num_delivered),
        )

    async def _handle(self, message: Msg) -> None:
        """Returns once the event's collection or its dead letter is stored."""
        incoming = Incoming.of(message)
        correlation_id = readable_correlation(incoming)
        with bound_contextvars(correlation_id=correlation_id):
            await self._start(incoming, correlation_id)

    async def _start(self, incoming: Incoming, correlation_id: str) -> None:
        """Raises errors that may pass; a permanent one is answered, and mostly a dead letter."""
        try:
            await self._create_from(incoming)
        except NothingNamedError as error:
            await self._answer(incoming, error.reason, str(error), correlation_id)
            log.info("event names nothing to do", form=incoming.form, error=str(error)[:500])
        except MeshError as error:
            if may_pass(error):
                raise
            await self._answer(incoming, error.reason, str(error), correlation_id)
            await self._dead_letter(incoming, error.reason, str(error), correlation_id)
        except Exception as error:
            if incoming.deliveries < MAX_FAULTS:
                raise
            fault = f"a fault of ours: {type(error).__name__}"
            await self._dead_letter(incoming, Reason.INTERNAL, fault, correlation_id)

    async def _create_from(self, incoming: Incoming) -> None:
        if incoming.form in RESULTS:
            message = read_message(incoming)
            kind, thread = incoming.form, message.correlation_id
            if not await self._take_result(kind, thread, message.payload):
                # It is late, or belongs to another orchestrator.
                log.info("no subtask waits for this result", form=incoming.form)
            return
        collection = await self._create(read(incoming))
        log.info("event started a collection", collection_id=collection.collection_id)

    async def _answer(
        self, incoming: Incoming, reason: Reason, message: str, correlation_id: str
    ) -> None:
        """Publishes that a request starts nothing, to a sender that can recognise the answer."""
        kind = ANSWERS.get(incoming.form)
        if kind and correlation_id:
            answer = refused(
                kind,
                event_id=incoming.letter_id,
                correlation_id=correlation_id,
                timestamp=incoming.stored,
                reason=reason,
                message=_readable(message),
            )
            await publish_event(self._bus, answer)

    async def _dead_letter(
        self, incoming: Incoming, reason: Reason, message: str, correlation_id: str
    ) -> None:
        """Stores what was wrong with the event, and what a replay sends again."""
        letter = job_pb2.DeadLetter(
            kind=job_pb2.LETTER_KIND_EVENT,
            letter_id=incoming.letter_id,
            correlation_id=correlation_id,
            failure=job_pb2.Failure(
                reason=reason,
                message=_readable(message),
                retryable=reason in RETRYABLE,
            ),
            attempts=incoming.deliveries,
            dead_time=from_current_time(),
            content=incoming.data[:MAX_CONTENT],
            content_size_bytes=len(incoming.data),
            subject=incoming.subject,
        )
        letter.first_attempt_time.FromDatetime(incoming.stored)
        await self._dead_letters.add(letter)
        log.warning("event is a dead letter", reason=reason, letter_id=letter.letter_id)


def _readable(message: str) -> str:
    """It names keys of the event, which may hold lone surrogates."""
    return message[:MAX_MESSAGE].encode(errors="replace").decode()


def may_pass(error: MeshError) -> bool:
    """Whether the same event may start a collection later."""
    unavailable = isinstance(error, UnavailableError)
    return unavailable or error.retryable or error.reason == Reason.STORAGE_FULL


async def resend_event(bus: Bus, letter: job_pb2.DeadLetter) -> None:
    """Publishes a dead event to the inbox again, on its own subject.

    Returns once it is stored; sent twice, it still starts one collection.
    """
    if len(letter.content) < letter.content_size_bytes:
        raise InvalidRequestError(
            f"only the first {len(letter.content):,} of {letter.content_size_bytes:,} bytes of"
            " the event were stored: its sender must send it again"
        )
    headers = {MESSAGE_ID: f"replay-{letter.letter_id}"}
    await bus.publish(letter.subject, letter.content, headers)
