"""Bad downloads leave nothing behind, and the counting would notice if they did."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from benchmarks.download_sources import running_site
from benchmarks.download_torture import ALLOWED_GROWTH, KINDS, Left, Torture, torture
from benchmarks.downloading import first_bytes, running_downloader, story, table

DOWNLOADS = 42
"""`make bench-download` runs two hundred."""


async def test_downloads_that_end_badly_leave_no_process_no_file_and_no_descriptor(
    tmp_path: Path,
) -> None:
    async with (
        running_site() as site,
        running_downloader(tmp_path) as (process, address),
        grpc.aio.insecure_channel(address) as channel,
    ):
        assert len(await first_bytes(channel, f"{site}/page", 1)) == 1
        done = await torture(channel, process, site, tmp_path, DOWNLOADS)

    assert done.faults() == [], story(done)
    assert sum(done.ends.values()) == DOWNLOADS
    assert {end.split()[0] for end in done.ends} == set(KINDS)
    assert {end.split()[1] for end in done.ends} == {"whole", "cancelled", "NETWORK_ERROR"}


@pytest.mark.parametrize(
    "more",
    [{"processes": 1}, {"descriptors": 1}, {"files": 1}, {"memory": ALLOWED_GROWTH + 1}],
)
def test_whatever_is_left_behind_is_a_fault(more: dict[str, int]) -> None:
    before = Left(processes=2, descriptors=30, files=0, memory=10**8)
    grown = {name: getattr(before, name) + count for name, count in more.items()}

    assert len(Torture(before, replace(before, **grown)).faults()) == 1
    assert Torture(before, before).faults() == []


@pytest.mark.parametrize("end", ["good corrupt", "truncated whole", "reset INTERNAL"])
def test_an_end_that_is_a_lie_is_a_fault(end: str) -> None:
    rest = Left(2, 30, 0, 10**8)

    assert Torture(rest, rest, Counter({end: 1})).faults() == [f"{end}: 1"]


def test_the_table_has_a_row_for_each_source() -> None:
    text = table([("file", [0.1, 0.2, 0.3], [1.9]), ("page", [0.2], [])])

    assert text.splitlines()[2:] == [
        "file        0.200    0.300         1.90",
        "page        0.200    0.200            -",
    ]
