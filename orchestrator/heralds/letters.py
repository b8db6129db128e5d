"""Events that start nothing: as the dead-letter queue keeps them, and how they are sent again."""

from google.protobuf.timestamp import from_current_time

from mesh.bus import Bus
from mesh.errors import InvalidRequestError
from mesh.reasons import RETRYABLE, Reason
from orchestrator.heralds.incoming import MESSAGE_ID, Incoming
from ytcaption.v1 import job_pb2

MAX_CONTENT = 64 * 1024
MAX_MESSAGE = 2000


def event_letter(
    incoming: Incoming, reason: Reason, message: str, correlation_id: str
) -> job_pb2.DeadLetter:
    """Everything a person needs to see what was wrong, and a replay to send it again."""
    letter = job_pb2.DeadLetter(
        kind=job_pb2.LETTER_KIND_EVENT,
        letter_id=incoming.letter_id,
        correlation_id=correlation_id,
        failure=job_pb2.Failure(
            reason=reason,
            # It names keys of the event, which may hold halves of characters.
            message=message[:MAX_MESSAGE].encode(errors="replace").decode(),
            retryable=reason in RETRYABLE,
        ),
        attempts=incoming.deliveries,
        dead_time=from_current_time(),
        content=incoming.data[:MAX_CONTENT],
        content_size_bytes=len(incoming.data),
        subject=incoming.subject,
    )
    letter.first_attempt_time.FromDatetime(incoming.stored)
    return letter


class EventSender:
    """Puts an event back into the inbox, on the subject it came on."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def send(self, letter: job_pb2.DeadLetter) -> None:
        """Returns once it is stored; sent twice, it starts one collection all the same."""
        if len(letter.content) < letter.content_size_bytes:
            raise InvalidRequestError(
                f"only the first {len(letter.content):,} of {letter.content_size_bytes:,} bytes of"
                " the event were kept: whoever sent it has to send it again",
                reason=Reason.REQUEST_INVALID,
            )
        headers = {MESSAGE_ID: f"replay-{letter.letter_id}"}
        await self._bus.publish(letter.subject, letter.content, headers)
