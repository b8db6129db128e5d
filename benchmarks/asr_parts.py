"""The parts of the comparison; in each, contestants take turns so that noise hits all alike."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import perf_counter

import click

from benchmarks.asr_contestants import OURS, SEQUENTIAL, BareChild, Contestant, Terms, bare, ours
from benchmarks.asr_figures import Row, at_once, long_against_short
from benchmarks.asr_heard import Heard
from benchmarks.asr_recordings import Recording, join
from benchmarks.load_figures import Figure

ENGLISH = "en"
LISTENER = "base"
"""Tells languages apart when the model that is measured cannot."""
AT_ONCE = 4


@dataclass(slots=True)
class Outcome:
    """The results of one recording."""

    recording: Recording
    runs: dict[str, list[Heard]] = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        """One for each contestant."""
        return [Row.of(self.recording, way, runs) for way, runs in self.runs.items()]


def say(text: str) -> None:
    """Prints progress."""
    click.echo(text, err=True)


async def with_languages(
    recordings: Sequence[Recording], terms: Terms, work: Path
) -> tuple[list[Recording], bool]:
    """The recordings with the language heard in each, and whether the model knows more than one."""
    async with bare(SEQUENTIAL, terms, work) as child:
        multilingual = await child.is_multilingual()
        if multilingual:
            return [await _with_language(child, one) for one in recordings], True
    async with bare(SEQUENTIAL, replace(terms, model=LISTENER), work) as child:
        return [await _with_language(child, one) for one in recordings], False


async def _with_language(child: BareChild, recording: Recording) -> Recording:
    return replace(recording, language=await child.language_of(recording))


async def compare(
    recordings: Sequence[Recording], ready: Sequence[Contestant], runs: int
) -> list[Outcome]:
    """Every recording, by every contestant in turn, as often as asked."""
    outcomes = [Outcome(recording) for recording in recordings]
    for number in range(runs):
        for outcome in outcomes:
            for one in ready:
                heard = await one.hear(outcome.recording)
                outcome.runs.setdefault(one.name, []).append(heard)
                say(
                    f"run {number + 1}: {outcome.recording.name}: {one.name}: "
                    f"{heard.wall_seconds:.2f} s, first after {heard.first_seconds or 0:.2f} s"
                )
    return outcomes


async def warm_up(ready: Sequence[Contestant], recording: Recording) -> None:
    """Warm-up: the first decode is slower than the rest and is not measured."""
    for one in ready:
        await one.hear(recording)


def make_shares(
    english: Sequence[Recording], seconds: float, seed: int, work: Path
) -> list[Recording]:
    """Several different recordings that last as long together."""
    return [
        join(english, work / f"share {number}.s16le", seconds / AT_ONCE, seed + number)
        for number in range(1, AT_ONCE + 1)
    ]


async def four_at_once(
    recordings: Sequence[Recording], ready: Sequence[Contestant], runs: int
) -> list[Figure]:
    """Total media seconds per second; contestants without concurrency run in turn."""
    walls: dict[str, list[float]] = {one.name: [] for one in ready}
    for _ in range(runs):
        for one in ready:
            began = perf_counter()
            heard = await asyncio.gather(*map(one.hear, recordings))
            # The bare ones load samples before their clocks start: that is not held against them.
            own = perf_counter() - began
            wall = own if one.name == OURS else sum(each.wall_seconds for each in heard)
            walls[one.name].append(wall)
            say(f"{len(recordings)} recordings: {one.name}: {wall:.2f} s")
    total = sum(recording.seconds for recording in recordings)
    return at_once({way: total / median(found) for way, found in walls.items()})


async def long_stream(
    english: Sequence[Recording], short: Recording, hours: float, terms: Terms, work: Path
) -> list[Figure]:
    """Hours in one stream beside minutes, each with a transcriber of its own."""
    long = await asyncio.to_thread(join, english, work / "long.s16le", hours * 3600)
    found = []
    for recording in (short, long):
        async with ours(terms, work) as one:
            found.append(await one.hear(recording))
        say(f"{recording.name}: {recording.seconds:.0f} s heard in {found[-1].wall_seconds:.1f} s")
    return long_against_short(found[0], found[1], long.seconds)
