"""Tells everyone who listens, as JSON, what the stories of jobs and collections say.

An outbox: the event is in the story already, and acknowledged here only once it is in the other
stream. Whoever dies in between leaves it to the next, and the broker drops what it is given twice.
"""

from google.protobuf.message import DecodeError
from nats.aio.msg import Msg
from nats.js import api
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import MeshError
from orchestrator.heralds.incoming import MESSAGE_ID
from orchestrator.heralds.translating import KINDS, translated
from orchestrator.shared_pull import SharedPull, acknowledge, put_back
from ytcaption.v1 import event_pb2

log = get_logger(__name__)

ACK_WAIT_SECONDS = 10.0
AGAIN_SECONDS = 1.0
HEADERS_BYTES = 1024


class Herald:
    """Shared by all replicas: one event at a time in all, so the order is that of the stories."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._pull = SharedPull(
            bus,
            bus.names.events_stream,
            api.ConsumerConfig(
                durable_name="herald",
                filter_subjects=[bus.names.event("*", kind) for kind in KINDS],
                deliver_policy=api.DeliverPolicy.NEW,
                ack_policy=api.AckPolicy.EXPLICIT,
                ack_wait=ACK_WAIT_SECONDS,
                max_ack_pending=1,
            ),
        )

    async def prepare(self) -> None:
        """From here on, every event is told; before the first of them can happen."""
        await self._pull.make()

    async def keep_telling(self) -> None:
        """One event after another, until cancelled."""
        async for message in self._pull.messages():
            await self._pass_on(message)

    async def _pass_on(self, message: Msg) -> None:
        told = self._in_json(message)
        if told is not None:
            kind, event_id, data = told
            try:
                headers = {MESSAGE_ID: event_id}
                await self._bus.publish(self._bus.names.outgoing(kind), data, headers)
            except MeshError as error:
                log.warning("an event has to wait", error=str(error))
                await put_back(message, AGAIN_SECONDS)
                return
        await acknowledge(message)

    def _in_json(self, message: Msg) -> tuple[str, str, bytes] | None:
        """Its kind, id and bytes; None if it cannot be told, which must not hold up the others."""
        try:
            event = translated(event_pb2.Event.FromString(message.data))
            data = event.model_dump_json(exclude_none=True).encode()
        except (DecodeError, ValueError, KeyError) as error:
            # Without the traceback, which would show all of the event.
            log.error("an event cannot be told", subject=message.subject, error=str(error)[:500])  # noqa: TRY400
            return None
        if len(data) + HEADERS_BYTES > self._bus.client.max_payload:
            log.error("an event is too large to be told", subject=message.subject, size=len(data))
            return None
        return event.tipo_evento, event.evento_id, data
