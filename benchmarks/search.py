"""The search in captions: `python -m benchmarks.search [--transcripts 1000] [--queries 2000]`.

Stores synthetic transcripts of ten minutes, about 1,500 words of a vocabulary with a Zipf
distribution, as the orchestrator does, starts an orchestrator, and measures how fast its index
grows, how large it is, and how long queries of two words take: through the service over gRPC, and
beside it in the bare engine in this process. Exits with 1 if the target is missed.
"""

import asyncio
import random
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from time import perf_counter

import click

from benchmarks.load_figures import MB, Figure, spread, table, to_json
from benchmarks.load_mesh import MIB, Orchestrator, Site, hasty_broker, running_orchestrator
from benchmarks.load_state import in_parallel
from benchmarks.results import write_json
from mesh.addresses import free_ports
from mesh.bus import Bus
from mesh.stores import Limits
from orchestrator.search.index import FILE, Filter, Search, SearchIndex
from orchestrator.search.query import parse
from tests.support.broker import running_broker
from tests.support.transcripts import spoken, store_job
from ytcaption.v1 import search_service_pb2 as pb
from ytcaption.v1 import search_service_pb2_grpc as rpc

RESULTS = Path(__file__).parent / "results"
PREFIX = "SEARCH"
VOCABULARY = 20_000
SEGMENTS, WORDS = 100, 15
"""Six seconds each."""
TARGET_MS = 50.0
"""The 99th percentile of a query of two words, on two cores."""
STORERS = 32
LOOK_SECONDS = 0.05
MAX_SECONDS = 600


class Speech:
    """Made-up words; the n-th is said 1/n as often as the first."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 # no secret
        found: dict[str, None] = {}
        while len(found) < VOCABULARY:
            syllables = range(self._random.randint(1, 4))
            found["".join(map(self._syllable, syllables))] = None
        self._words = list(found)
        self._weights = list(accumulate(1 / place for place in range(1, VOCABULARY + 1)))

    def _syllable(self, _: int) -> str:
        return self._random.choice("bcdfghjklmnprstvz") + self._random.choice("aeiou")

    def say(self, words: int) -> str:
        """So many words."""
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=words))


async def measure_search(transcripts: int, queries: int) -> list[Figure]:
    """Everything, on a broker of its own."""
    with tempfile.TemporaryDirectory(prefix="ytcaption-search-") as name:
        folder = Path(name)
        speech = Speech(1)
        await _store(folder / "nats", speech, transcripts)
        async with running_broker(folder / "nats") as broker:
            site = Site(broker, folder, f"127.0.0.1:{free_ports(1)[0]}")
            async with running_orchestrator(site, PREFIX, storage=1024 * MIB) as orchestrator:
                path = folder / "work" / "search" / "0" / FILE
                figures = await _grown(orchestrator, path, transcripts)
                asked = [speech.say(2) for _ in range(queries)]
                figures += await _over_grpc(orchestrator, asked)
        return figures + _in_process(folder / "work" / "search", asked)


async def _store(data_dir: Path, speech: Speech, transcripts: int) -> None:
    limits = Limits(storage_bytes=1024 * MIB)
    async with (
        hasty_broker(data_dir) as broker,
        Bus.connected(
            broker.url, credentials=broker.credentials, prefix=PREFIX, limits=limits
        ) as bus,
    ):

        async def store(_: int) -> None:
            texts = [f"{speech.say(WORDS)}." for _ in range(SEGMENTS)]
            await store_job(bus, spoken(texts))

        await in_parallel(transcripts, STORERS, store)


async def _grown(orchestrator: Orchestrator, path: Path, transcripts: int) -> list[Figure]:
    """Watches the index grow: its size at a quarter, a half and all of the transcripts."""
    marks = [transcripts // 4, transcripts // 2, transcripts]
    figures: list[Figure] = []
    began, cpu = perf_counter(), orchestrator.cpu_seconds
    async with asyncio.timeout(MAX_SECONDS):
        while marks:
            if (count := _indexed(path)) >= marks[0]:
                size = sum(one.stat().st_size for one in path.parent.glob(f"{FILE}*"))
                pages = _pages(path)
                figures.append(Figure(f"index of {count} transcripts", pages / MB, "MB"))
                figures.append(Figure("  of a transcript", pages / count / 1000, "kB"))
                figures.append(Figure("  on disk with its journal", size / MB, "MB"))
                marks.pop(0)
                continue
            await asyncio.sleep(LOOK_SECONDS)
    took, used = perf_counter() - began, orchestrator.cpu_seconds - cpu
    return [
        *figures,
        Figure("transcripts indexed", transcripts / took, "/s"),
        Figure("processor time of a transcript", used / transcripts * 1000, "ms"),
    ]


def _indexed(path: Path) -> int:
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM recordings").fetchone()[0])
    except sqlite3.OperationalError:  # not made yet
        return 0


def _pages(path: Path) -> int:
    """Bytes of the pages in use; those of the journal that are newer count."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        count, free, size = (
            int(database.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
    return (count - free) * size


async def _over_grpc(orchestrator: Orchestrator, asked: Sequence[str]) -> list[Figure]:
    stub = rpc.SearchServiceStub(orchestrator.channels[0])
    each: list[float] = []
    hits = 0
    for query in asked:
        began = perf_counter()
        found = await stub.Search(pb.SearchRequest(query=query))
        each.append(perf_counter() - began)
        hits += len(found.hits)
    return [
        *spread("two words, over gRPC", each, TARGET_MS),
        Figure("passages a query shows", hits / len(asked), ""),
    ]


def _in_process(folder: Path, asked: Sequence[str]) -> list[Figure]:
    """The engine alone, on the same file; the orchestrator has ended."""
    each: list[float] = []
    with closing(SearchIndex(folder)) as index:
        for query in asked:
            search = Search(parse(query), Filter(), 0, 20, lambda _: True)
            began = perf_counter()
            index.find(search)
            each.append(perf_counter() - began)
    return spread("two words, the engine in process", each)


@click.command(help=__doc__)
@click.option("--transcripts", type=click.IntRange(4), default=1000, show_default=True)
@click.option("--queries", type=click.IntRange(1), default=2000, show_default=True)
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, show_default=True)
def main(transcripts: int, queries: int, results: Path) -> None:
    """Measures, prints a table and writes the figures."""
    figures = asyncio.run(measure_search(transcripts, queries))
    asked = {"transcripts": transcripts, "queries": queries}
    path = write_json("search", {"asked": asked, "figures": to_json(figures)}, results)
    click.echo(table(figures))
    click.echo(f"wrote {path}", err=True)
    if not all(figure.met for figure in figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
