"""Compaction: makes the broker drop the bytes of messages that were replaced or removed.

nats-server (2.15) keeps messages in block files of at most 8 MiB. A message that is replaced by a
newer one of its subject, purged or acknowledged leaves the index; its bytes stay until its block
is removed, which happens with the last message in it, or is compacted. A block that is no longer
written to is compacted at once when a message in it is removed, if it has more than 2 MiB and more
than half of them are dead; smaller ones within two minutes, by the server's timer.

So a compaction writes fillers until the active block is full, and removes them: that block is then
compacted. In a bucket, and among dead letters, everything older is then stored once more,
unchanged: all former blocks lose their last message. Values of keys keep their order, not their
revisions; a writer that read one before finds a conflict, as after any other change.
"""

from collections.abc import Callable
from dataclasses import dataclass

from nats.js.errors import APIError

from mesh.bus import WRONG_LAST_SEQUENCE, Bus, Stored
from mesh.stores import FILLER, is_filler
from mesh.tasks import map_concurrently

FILLER_BYTES = 512 * 1024
BLOCK_BYTES = 8 * 1024 * 1024
"""The largest block of the broker."""
AT_ONCE = 32
BUCKET = "KV_"
"""Begins the streams of buckets; the broker deletes no single message of them."""


def _filler() -> bytes:
    """One unknown field of protobuf: readers of any record skip it."""
    tag, size = b"\xfa\x7f", FILLER_BYTES
    length = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
    return tag + length + bytes(size)


@dataclass(frozen=True, slots=True)
class Compaction:
    """Drops the bytes of what was replaced or removed, in all stores that hold any."""

    bus: Bus

    def steps(self) -> list[tuple[str, Callable[[int], str], bool]]:
        """Each stream, the subjects of its two fillers, and whether it is stored once more."""
        names = self.bus.names
        jobs, tokens, quotas = names.jobs_bucket, names.tokens_bucket, names.quotas_bucket
        artifacts = names.artifacts_bucket
        return [
            (f"KV_{jobs}", lambda one: f"$KV.{jobs}.{FILLER}.{one}", True),
            (f"KV_{tokens}", lambda one: f"$KV.{tokens}.{FILLER}.{one}", True),
            (f"KV_{quotas}", lambda one: f"$KV.{quotas}.{FILLER}.{one}", True),
            (names.dead_letter_stream, lambda one: names.dead_letter(f"{FILLER}-{one}"), True),
            (names.events_stream, lambda one: names.event(FILLER, str(one)), False),
            (names.work_stream, lambda one: names.work(FILLER, str(one)), False),
            (names.webhooks_stream, lambda one: names.webhook(f"{FILLER}-{one}"), False),
            (names.queues_stream, lambda one: names.queue(f"{FILLER}-{one}"), False),
            (names.deliveries_stream, lambda one: names.delivery(f"{FILLER}-{one}"), False),
            (f"OBJ_{artifacts}", lambda one: f"$O.{artifacts}.C.{FILLER}-{one}", False),
        ]

    async def run(self, stream: str, filler_subject: Callable[[int], str], *, again: bool) -> None:
        """Compacts one stream; safe in several replicas at once."""
        await self._fill(stream, filler_subject)
        if again:
            await self._store_again(stream)

    async def _fill(self, stream: str, filler_subject: Callable[[int], str]) -> None:
        """Fills the active block; at most two fillers at a time take room in the stream.

        Each is removed after the next was stored: the last one in the old block then leaves a
        block that is no longer written to, which the broker compacts.
        """
        subjects = [filler_subject(one) for one in range(2)]
        for subject in subjects:  # a run that was killed may have left them
            await self.bus.purge(stream, subject)
        data, last = _filler(), 0
        try:
            for count in range(BLOCK_BYTES // FILLER_BYTES + 1):
                sequence = await self.bus.publish(subjects[count % 2], data)
                if last:
                    await self._drop(stream, last)
                last = sequence
        finally:
            for subject in subjects:
                await self.bus.purge(stream, subject)

    async def _drop(self, stream: str, sequence: int) -> None:
        """Removes a message; the broker drops those of a bucket as soon as their key has others."""
        if not stream.startswith(BUCKET):
            await self.bus.erase(stream, sequence, overwrite=False)

    async def _store_again(self, stream: str) -> None:
        """Stores every message up to now once more, which empties all blocks before."""
        mark = (await self.bus.state(stream)).last_seq
        batch: list[Stored] = []
        in_order = not stream.startswith(BUCKET)

        async def flush() -> None:
            await map_concurrently(
                lambda one: self._copy(stream, one), batch, at_once=1 if in_order else AT_ONCE
            )
            batch.clear()

        async for stored in self.bus.read(stream, ">"):
            if stored.sequence > mark:
                break
            if not is_filler(stored.subject):
                batch.append(stored)
            if len(batch) >= AT_ONCE:
                await flush()
        await flush()

    async def _copy(self, stream: str, stored: Stored) -> None:
        """A message that was changed meanwhile has moved by that."""
        if stored.deleted:
            await self._copy_marker(stored)
        else:
            await self.bus.publish_fenced(stream, stored.subject, stored.data, stored.sequence)
        await self._drop(stream, stored.sequence)

    async def _copy_marker(self, stored: Stored) -> None:
        headers = {
            "KV-Operation": "PURGE",
            "Nats-Expected-Last-Subject-Sequence": str(stored.sequence),
        }
        try:
            await self.bus.publish(stored.subject, b"", headers)
        except APIError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:
                raise
