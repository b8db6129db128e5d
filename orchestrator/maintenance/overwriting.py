"""Overwrites messages and files in the broker's streams, so that their bytes are gone."""

from contextlib import suppress
from dataclasses import dataclass

from nats.js.errors import NotFoundError as NoMessageError

from mesh.bus import Bus, outlast, storing
from mesh.tasks import map_concurrently
from orchestrator.maintenance.inventory import Inventory, StoredFile

MESSAGES_AT_ONCE = 8
EDGE_CHUNKS = 64
"""Chunks at either end of a file that may share a block of the broker with others: 8 MiB."""


@dataclass(frozen=True, slots=True)
class Overwriter:
    """Works on one broker; every step may be repeated."""

    bus: Bus
    inventory: Inventory

    async def erase_file(self, file: StoredFile) -> None:
        """Overwrites the chunks that may share a block with others' bytes, then the name.

        Chunks have one size. Where their sequences have no gaps, the blocks between the two ends
        hold nothing else, and the broker removes a block with its last message.
        """
        stream, subject = self.inventory.stream, self.inventory.chunks_of(file)
        sequences = await self._sequences(stream, subject)
        gaps = bool(sequences) and sequences[-1] - sequences[0] + 1 != len(sequences)
        if gaps or len(sequences) <= 2 * EDGE_CHUNKS:
            edges = sequences
        else:
            edges = [*sequences[:EDGE_CHUNKS], *sequences[-EDGE_CHUNKS:]]
        await self.erase_all(stream, edges)
        await self.bus.purge(stream, subject)
        await self.erase_all(stream, [file.sequence])

    async def _sequences(self, stream: str, subject: str) -> list[int]:
        """The sequences of a file's chunks, without reading it if they have no gaps."""
        bus, ends = self.bus, []
        with suppress(NoMessageError):
            async for first in bus.read(stream, subject, batch=1):
                ends.append(first.sequence)
                break
            async with storing():
                ends.append((await bus.jetstream.get_last_msg(stream, subject)).seq or 0)
        if len(ends) < 2:  # both ends
            return ends
        async with storing():
            info = await bus.jetstream.stream_info(stream, subjects_filter=subject)
        count = (info.state.subjects or {}).get(subject, 0)
        if ends[1] - ends[0] + 1 == count:
            return list(range(ends[0], ends[1] + 1))
        return [stored.sequence async for stored in bus.read(stream, subject, batch=4)]

    async def erase_all(self, stream: str, sequences: list[int]) -> int:
        """Overwrites messages; returns how many were there."""

        async def erase(sequence: int) -> bool:
            return await outlast(lambda: self.bus.erase(stream, sequence))

        return sum(await map_concurrently(erase, sequences, at_once=MESSAGES_AT_ONCE))
