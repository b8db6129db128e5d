"""One message of the inbox, and what tells it from every other."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Self
from uuid import NAMESPACE_OID, uuid5

from nats.aio.msg import Msg

MESSAGE_ID = "Nats-Msg-Id"


@dataclass(frozen=True, slots=True)
class Incoming:
    """As the broker delivered it."""

    subject: str
    data: bytes
    sequence: int
    stored: datetime
    """When the broker stored it: the same in every delivery."""
    deliveries: int = 1
    message_id: str = ""
    """The sender's own, if one was given."""

    @classmethod
    def of(cls, message: Msg) -> Self:
        """Without what only the connection needs."""
        known = message.metadata
        return cls(
            subject=message.subject,
            data=message.data,
            sequence=known.sequence.stream,
            stored=known.timestamp,
            deliveries=known.num_delivered,
            message_id=(message.headers or {}).get(MESSAGE_ID, ""),
        )

    @property
    def form(self) -> str:
        """The last word of the subject: which form it claims to have."""
        return self.subject.rpartition(".")[2]

    @property
    def request_id(self) -> str:
        """For a message that names none: two sent on purpose differ, two deliveries do not."""
        named = f"id {self.message_id}" if self.message_id else self._place
        return f"event-{sha256(named.encode(errors='replace')).hexdigest()}"

    @property
    def letter_id(self) -> str:
        """One for each message, however often it is delivered."""
        return str(uuid5(NAMESPACE_OID, f"ytcaption inbox {self._place}"))

    @property
    def _place(self) -> str:
        # The time too: a stream made anew counts from one again.
        return f"{self.sequence} {self.stored.isoformat()}"
