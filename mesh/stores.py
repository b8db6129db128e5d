"""Everything of ours that lives on the broker: names, sizes, and how it is made."""

from dataclasses import dataclass
from typing import Literal

from nats.js import JetStreamContext, api
from nats.js.errors import NotFoundError
from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore

GIB = 1024**3
MAX_WAITING = 10_000
MAX_TOLD = 200_000
WEEK_SECONDS = 7 * 86_400
OUTBOX_DUPLICATES_SECONDS = 900
"""For so long an event that is told again is dropped: far beyond a redelivery or a restart."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much each store may hold; full means refused at once, never a time-out."""

    replicas: int = 1
    storage_bytes: int = 16 * GIB
    """In all; the broker sets it aside, so it must have it."""
    event_age_seconds: float = 30 * 86_400

    def share(self, part: float) -> int:
        """A part of the whole storage."""
        return int(self.storage_bytes * part)


class Names:
    """What our streams, buckets and subjects are called under one prefix."""

    def __init__(self, prefix: str) -> None:
        self.work_stream = f"{prefix}_WORK"
        self.events_stream = f"{prefix}_EVENTS"
        self.dead_letter_stream = f"{prefix}_DLQ"
        self.exhausted_stream = f"{prefix}_EXHAUSTED"
        self.collections_stream = f"{prefix}_COLLECTIONS"
        self.inbox_stream = f"{prefix}_INBOX"
        self.outbox_stream = f"{prefix}_OUTBOX"
        self.webhooks_stream = f"{prefix}_WEBHOOKS"
        self.deliveries_stream = f"{prefix}_DELIVERIES"
        self.jobs_bucket = f"{prefix}_JOBS"
        self.artifacts_bucket = f"{prefix}_ARTIFACTS"
        self._root = prefix.lower()

    def streams(self) -> list[str]:
        """Every stream that jobs fill, those behind the buckets included."""
        return [
            self.work_stream,
            self.events_stream,
            self.dead_letter_stream,
            self.webhooks_stream,
            self.deliveries_stream,
            f"KV_{self.jobs_bucket}",
            f"OBJ_{self.artifacts_bucket}",
        ]

    def work(self, lane: str, job_id: str) -> str:
        """Subject of a job's one work item."""
        return f"{self._root}.work.{lane}.{job_id}"

    def event(self, job_id: str, kind: str) -> str:
        """Subject of one kind of stored event of a job."""
        return f"{self._root}.events.{job_id}.{kind}"

    def dead_letter(self, letter_id: str) -> str:
        """Subject of a dead letter; a job's has the job's id."""
        return f"{self._root}.dlq.{letter_id}"

    def collection(self, collection_id: str) -> str:
        """Subject of the one item that keeps a collection going."""
        return f"{self._root}.collections.{collection_id}"

    def incoming(self, kind: Literal["start_collection", "iniciar_coleta", "*"]) -> str:
        """Subject on which anyone may start a collection: as protobuf, or as JSON."""
        return f"{self._root}.in.{kind}"

    def outgoing(self, kind: str) -> str:
        """Subject on which the four kinds of the original contract are told as JSON."""
        return f"{self._root}.out.{kind}"

    def webhook(self, event_id: str) -> str:
        """Subject of a webhook that has to be delivered."""
        return f"{self._root}.webhooks.{event_id}"

    def delivery(self, event_id: str) -> str:
        """Subject of what is known about the delivery of a webhook."""
        return f"{self._root}.deliveries.{event_id}"

    def exhausted(self) -> str:
        """Subjects on which the broker says which items it will not deliver any more."""
        return f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{self.work_stream}.*"

    def live(self, job_id: str, kind: Literal["event", "progress", "*"]) -> str:
        """Core subject on which a job's runner tells watchers what just happened."""
        return f"{self._root}.live.{job_id}.{kind}"

    def cancel(self, job_id: str) -> str:
        """Core subject on which a job's runner is told to stop."""
        return f"{self._root}.cancel.{job_id}"


async def make_streams(js: JetStreamContext, names: Names, limits: Limits) -> None:
    """Makes the streams that are missing; those that are there stay as they are."""
    for config in _streams(names, limits):
        try:
            there = (await js.stream_info(str(config.name))).config
        except NotFoundError:
            await js.add_stream(config)
            continue
        if config.name == names.work_stream and there.subjects != config.subjects:
            # From before there were lanes. The records tell what was in it: see Rescue.
            await js.delete_stream(str(config.name))
            await js.add_stream(config)


def _streams(names: Names, limits: Limits) -> list[api.StreamConfig]:
    bounded = api.StreamConfig(
        storage=api.StorageType.FILE,
        num_replicas=limits.replicas,
        discard=api.DiscardPolicy.NEW,
        allow_direct=True,
    )
    return [
        bounded.evolve(
            name=names.work_stream,
            subjects=[names.work("*", "*")],
            retention=api.RetentionPolicy.WORK_QUEUE,
            max_bytes=limits.share(0.04),
            # At most one work item a job, by construction.
            max_msgs_per_subject=1,
            discard_new_per_subject=True,
        ),
        bounded.evolve(
            name=names.events_stream,
            subjects=[names.event("*", "*")],
            max_bytes=limits.share(0.16),
            max_age=limits.event_age_seconds,
        ),
        bounded.evolve(
            name=names.dead_letter_stream,
            subjects=[names.dead_letter("*")],
            max_bytes=limits.share(0.02),
        ),
        bounded.evolve(
            name=names.exhausted_stream,
            subjects=[names.exhausted()],
            # The broker does not ask whether there is room; and sets aside what is told in bytes.
            discard=api.DiscardPolicy.OLD,
            max_msgs=10_000,
        ),
        *_side_streams(names, bounded),
    ]


def _side_streams(names: Names, bounded: api.StreamConfig) -> list[api.StreamConfig]:
    """Small beside the others, and bounded by count: what is told in bytes is set aside."""
    one_each = bounded.evolve(
        retention=api.RetentionPolicy.WORK_QUEUE,
        max_msgs=MAX_WAITING,
        max_msgs_per_subject=1,
        discard_new_per_subject=True,
    )
    kept_a_while = bounded.evolve(
        discard=api.DiscardPolicy.OLD, max_msgs=MAX_TOLD, max_age=WEEK_SECONDS
    )
    return [
        one_each.evolve(name=names.collections_stream, subjects=[names.collection("*")]),
        one_each.evolve(name=names.webhooks_stream, subjects=[names.webhook("*")]),
        bounded.evolve(
            name=names.inbox_stream,
            subjects=[names.incoming("*")],
            retention=api.RetentionPolicy.WORK_QUEUE,
            max_msgs=MAX_WAITING,
        ),
        kept_a_while.evolve(
            name=names.outbox_stream,
            subjects=[names.outgoing("*")],
            duplicate_window=OUTBOX_DUPLICATES_SECONDS,
        ),
        kept_a_while.evolve(
            name=names.deliveries_stream,
            subjects=[names.delivery("*")],
            max_msgs_per_subject=1,  # each tells all that was known then
        ),
    ]


async def key_value(js: JetStreamContext, bucket: str, limits: Limits) -> KeyValue:
    """The bucket of that name, made if it is missing."""
    try:
        return await js.key_value(bucket)
    except NotFoundError:
        return await js.create_key_value(
            api.KeyValueConfig(
                bucket=bucket,
                history=1,
                storage=api.StorageType.FILE,
                replicas=limits.replicas,
                max_bytes=limits.share(0.08),
                direct=True,
            )
        )


async def object_store(js: JetStreamContext, bucket: str, limits: Limits) -> ObjectStore:
    """The object store of that name, made if it is missing."""
    try:
        return await js.object_store(bucket)
    except NotFoundError:
        return await js.create_object_store(
            bucket,
            config=api.ObjectStoreConfig(
                bucket=bucket,
                storage=api.StorageType.FILE,
                replicas=limits.replicas,
                max_bytes=limits.share(0.7),
            ),
        )
