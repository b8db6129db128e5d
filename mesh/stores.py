"""Our streams, buckets and subjects on the broker: names, limits and creation."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from nats.js import JetStreamContext, api
from nats.js.errors import NotFoundError
from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore

GIB = 1024**3
MAX_WAITING = 10_000
MAX_PUBLISHED = 200_000
WEEK_SECONDS = 7 * 86_400
AUDIT_SECONDS = 365 * 86_400
"""Entries of the audit, which an erasure leaves, end after this."""
OUTBOX_DUPLICATES_SECONDS = 900
"""Deduplication window of published events: far longer than a redelivery or a restart."""
FILLER = "filler"
OWNER_TAG = "Ytc-Owner"
"""Header of events: says whose they are, also once their job is gone, to who knows the name."""


def is_filler(subject: str) -> bool:
    """Whether a message only fills a file of the broker, and says nothing."""
    return FILLER in (part.partition("-")[0] for part in subject.split("."))


def owner_key(owner: str) -> str:
    """What stands for an owner's name in keys, which cannot hold every name; also for no owner."""
    return sha256(owner.encode()).hexdigest()[:32]


def owner_tag(owner: str) -> str:
    """What stands for an owner's name in headers; "" for no owner."""
    return owner_key(owner) if owner else ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Capacity of the stores; a full store refuses at once instead of timing out."""

    replicas: int = 1
    storage_bytes: int = 16 * GIB
    """Total; the broker reserves it, so the disk must have it."""
    event_age_seconds: float = 30 * 86_400

    def share(self, part: float) -> int:
        """That fraction of the total storage."""
        return int(self.storage_bytes * part)


class Names:
    """Names of our streams, buckets and subjects under one prefix."""

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
        self.audit_stream = f"{prefix}_AUDIT"
        self.tasks_stream = f"{prefix}_TASKS"
        self.queues_stream = f"{prefix}_QUEUES"
        self.jobs_bucket = f"{prefix}_JOBS"
        self.artifacts_bucket = f"{prefix}_ARTIFACTS"
        self.tokens_bucket = f"{prefix}_TOKENS"
        self.owners_bucket = f"{prefix}_OWNERS"
        self.quotas_bucket = f"{prefix}_QUOTAS"
        self.types_bucket = f"{prefix}_TYPES"
        self._root = prefix.lower()

    def streams(self) -> list[str]:
        """Every stream that jobs write to, including those behind the buckets."""
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
        """Subject of a dead letter; a job's dead letter has the job's id."""
        return f"{self._root}.dlq.{letter_id}"

    def collection(self, collection_id: str) -> str:
        """Subject of a collection's one work item."""
        return f"{self._root}.collections.{collection_id}"

    def task(self, role: str, type_: str, task_id: str) -> str:
        """Subject of a task's one work item, in the queue of its type."""
        return f"{self._root}.tasks.{role}.{type_}.{task_id}"

    def queue(self, type_: str) -> str:
        """Subject of the messages to programs that serve a type over NATS."""
        return f"{self._root}.queue.{type_}"

    def incoming(self, kind: str) -> str:
        """Subject of what clients send: `start_collection` as protobuf, or a message in JSON."""
        return f"{self._root}.in.{kind}"

    def outgoing(self, kind: str) -> str:
        """Subject of the JSON events of the original contract, one for each kind."""
        return f"{self._root}.out.{kind}"

    def webhook(self, event_id: str) -> str:
        """Subject of a webhook that is waiting for delivery."""
        return f"{self._root}.webhooks.{event_id}"

    def delivery(self, event_id: str) -> str:
        """Subject of a webhook's delivery record."""
        return f"{self._root}.deliveries.{event_id}"

    def audit(self) -> str:
        """Subject of the entries of the audit."""
        return f"{self._root}.audit"

    def exhausted(self) -> str:
        """Subjects of the broker's max-deliveries advisories for the work stream."""
        return f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{self.work_stream}.*"

    def live(self, job_id: str, kind: Literal["event", "progress", "*"]) -> str:
        """Core NATS subject of a running job's events and progress for watchers."""
        return f"{self._root}.live.{job_id}.{kind}"

    def answer(self, task_id: str) -> str:
        """Core NATS subject that says a program has answered a task."""
        return f"{self._root}.answers.{task_id}"

    def cancel(self, job_id: str) -> str:
        """Core NATS subject that cancels a running job."""
        return f"{self._root}.cancel.{job_id}"


async def make_streams(js: JetStreamContext, names: Names, limits: Limits) -> None:
    """Creates the missing streams; leaves existing ones as they are."""
    for config in _streams(names, limits):
        try:
            existing = (await js.stream_info(str(config.name))).config
        except NotFoundError:
            await js.add_stream(config)
            continue
        if config.name == names.work_stream and existing.subjects != config.subjects:
            # Made before lanes existed. The reconciler re-enqueues its jobs from their records.
            await js.delete_stream(str(config.name))
            await js.add_stream(config)
        if config.name == names.audit_stream and not existing.max_age:
            # Made before entries had an age.
            await js.update_stream(existing.evolve(max_age=config.max_age))


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
            # At most one work item per job.
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
            # The broker publishes advisories even to a full stream. Bounded by count: a limit in
            # bytes would reserve storage.
            discard=api.DiscardPolicy.OLD,
            max_msgs=10_000,
        ),
        *_side_streams(names, bounded),
    ]


def _side_streams(names: Names, bounded: api.StreamConfig) -> list[api.StreamConfig]:
    """Small streams, bounded by count: a limit in bytes would reserve storage."""
    one_per_subject = bounded.evolve(
        retention=api.RetentionPolicy.WORK_QUEUE,
        max_msgs=MAX_WAITING,
        max_msgs_per_subject=1,
        discard_new_per_subject=True,
    )
    kept_for_a_week = bounded.evolve(
        discard=api.DiscardPolicy.OLD, max_msgs=MAX_PUBLISHED, max_age=WEEK_SECONDS
    )
    return [
        one_per_subject.evolve(name=names.collections_stream, subjects=[names.collection("*")]),
        one_per_subject.evolve(name=names.webhooks_stream, subjects=[names.webhook("*")]),
        one_per_subject.evolve(name=names.tasks_stream, subjects=[names.task("*", "*", "*")]),
        bounded.evolve(
            name=names.queues_stream,
            subjects=[names.queue("*")],
            retention=api.RetentionPolicy.WORK_QUEUE,
            max_msgs=MAX_WAITING,
        ),
        bounded.evolve(
            name=names.inbox_stream,
            subjects=[names.incoming("*")],
            retention=api.RetentionPolicy.WORK_QUEUE,
            max_msgs=MAX_WAITING,
        ),
        kept_for_a_week.evolve(
            name=names.outbox_stream,
            subjects=[names.outgoing("*")],
            duplicate_window=OUTBOX_DUPLICATES_SECONDS,
        ),
        bounded.evolve(
            name=names.audit_stream,
            subjects=[names.audit()],
            discard=api.DiscardPolicy.OLD,
            max_msgs=MAX_PUBLISHED,
            max_age=AUDIT_SECONDS,
            deny_delete=True,
        ),
        kept_for_a_week.evolve(
            name=names.deliveries_stream,
            subjects=[names.delivery("*")],
            max_msgs_per_subject=1,  # each message replaces the one before
        ),
    ]


async def key_value(
    js: JetStreamContext, bucket: str, limits: Limits, *, share: float = 0
) -> KeyValue:
    """The key-value bucket of that name, created if missing; with a share of the storage, or none.

    A small bucket has no limit in bytes: that would reserve storage.
    """
    try:
        return await js.key_value(bucket)
    except NotFoundError:
        return await js.create_key_value(
            api.KeyValueConfig(
                bucket=bucket,
                history=1,
                storage=api.StorageType.FILE,
                replicas=limits.replicas,
                max_bytes=limits.share(share) if share else -1,
                direct=True,
            )
        )


async def object_store(js: JetStreamContext, bucket: str, limits: Limits) -> ObjectStore:
    """The object store of that name, created if missing."""
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
