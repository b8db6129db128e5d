"""Lanes of the quality benchmark: each hears one variant after another, in every way.

Ours is one transcriber service with a thread for each lane, and hears as many streams at once. Each
lane has bare children of its own with one thread each, started when the cache lacks an answer.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from benchmarks.asr_contestants import OURS, BareChild, Ours, Terms, bare, ours
from benchmarks.asr_heard import Heard
from benchmarks.asr_parts import say
from benchmarks.asr_recordings import Recording
from benchmarks.figures import clock
from benchmarks.quality_cache import Cache, key_of
from benchmarks.quality_figures import Judged, judge_heard
from benchmarks.quality_mutations import Variant
from mesh.tasks import stop

SAY_SECONDS = 5.0


@dataclass(slots=True)
class Progress:
    """Says on stderr how far it is."""

    total: int
    cache: Cache
    began: float
    done: int = 0
    said_at: float = 0.0

    def passed(self) -> None:
        """Counts one variant."""
        self.done += 1
        if self.done == self.total or monotonic() - self.said_at >= SAY_SECONDS:
            self.said_at = monotonic()
            gone = clock(self.said_at - self.began)
            say(f"{self.done} of {self.total} variants, {gone}, {self.cache.hits} from the cache")


class Lane:
    """Hears variants one at a time."""

    def __init__(self, number: int, own: Ours, ways: Sequence[str], terms: Terms) -> None:
        self._number = number
        self._own = own
        self._ways = ways
        self._terms = replace(terms, threads=1)
        self._children: dict[str, BareChild] = {}

    async def run(
        self,
        makers: Iterator[tuple[int, Callable[[], Variant]]],
        work: Path,
        cache: Cache,
        heard: Callable[[int, list[Judged]], None],
    ) -> None:
        """Takes variants until there are no more."""
        folder = work / f"lane-{self._number}"
        folder.mkdir()
        async with AsyncExitStack() as stack:
            for number, make in makers:
                variant = await asyncio.to_thread(make)
                recording = _write(variant, folder / "variant.s16le")
                found = {
                    way: await self._hear(way, variant, recording, cache, stack)
                    for way in self._ways
                }
                heard(number, judge_heard(variant, found))

    async def _hear(
        self, way: str, variant: Variant, recording: Recording, cache: Cache, stack: AsyncExitStack
    ) -> Heard:
        if way == OURS:
            return await self._own.hear(recording)
        key = key_of(variant.samples, way, self._terms)
        known = cache.load(key)
        if known is not None:
            return known
        if way not in self._children:
            starting = bare(way, self._terms, recording.path.parent)
            self._children[way] = await stack.enter_async_context(starting)
        answer = await self._children[way].hear(recording)
        cache.store(key, answer)
        return answer


def _write(variant: Variant, path: Path) -> Recording:
    path.write_bytes(variant.samples.tobytes())
    name = f"{variant.clip} {variant.mutation}"
    return Recording.of(path, name, variant.reference or "", variant.language)


async def hear_all(
    makers: Sequence[Callable[[], Variant]],
    ways: Sequence[str],
    terms: Terms,
    cache: Cache,
    work: Path,
) -> list[Judged]:
    """Every variant in every way, in the order of the variants; `terms.threads` is the lanes."""
    progress = Progress(len(makers), cache, monotonic())
    results: dict[int, list[Judged]] = {}

    def heard(number: int, judged: list[Judged]) -> None:
        results[number] = judged
        progress.passed()

    waiting = iter(enumerate(makers))
    async with ours(terms, work, words=True) as own:
        lanes = [
            asyncio.create_task(Lane(number, own, ways, terms).run(waiting, work, cache, heard))
            for number in range(min(terms.threads, len(makers)))
        ]
        try:
            await asyncio.gather(*lanes)
        finally:
            await stop(*lanes)
    return [judged for number in sorted(results) for judged in results[number]]
