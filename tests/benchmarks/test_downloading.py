"""Bad downloads leave nothing behind, and the counting would notice if they did."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from benchmarks.download_sources import running_site
from benchmarks.download_torture import (
    ALLOWED_GROWTH,
    ALLOWED_WARMING,
    KINDS,
    Left,
    Torture,
    torture,
)
from benchmarks.downloading import event_log, first_bytes, running_downloader, table

DOWNLOADS = 42
"""In each half; `make bench-download` runs two hundred."""

REST = Left(processes=2, descriptors=30, files=0, service=10**8, children=10**8)


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

    assert done.faults() == [], event_log(done)
    assert sum(done.ends.values()) == 2 * DOWNLOADS
    assert {end.split()[0] for end in done.ends} == set(KINDS)
    assert {end.split()[1] for end in done.ends} == {"whole", "cancelled", "NETWORK_ERROR"}


@pytest.mark.parametrize(
    "more",
    [
        {"processes": 1},
        {"descriptors": 1},
        {"files": 1},
        {"service": ALLOWED_GROWTH + 1},
        {"children": ALLOWED_GROWTH + 1},
    ],
)
def test_whatever_is_left_behind_is_a_fault(more: dict[str, int]) -> None:
    grown = {name: getattr(REST, name) + count for name, count in more.items()}

    assert len(Torture(REST, REST, replace(REST, **grown)).faults()) == 1
    assert Torture(REST, REST, REST).faults() == []


def test_a_heap_that_takes_its_size_in_the_first_half_is_no_fault_unless_it_is_huge() -> None:
    warm = replace(REST, service=REST.service + ALLOWED_WARMING)
    huge = replace(warm, service=warm.service + 1)

    assert Torture(REST, warm, warm).faults() == []
    assert len(Torture(REST, huge, huge).faults()) == 1


@pytest.mark.parametrize("end", ["good corrupt", "truncated whole", "reset INTERNAL", "reset "])
def test_an_end_that_is_a_lie_is_a_fault(end: str) -> None:
    assert Torture(REST, REST, REST, Counter({end: 1})).faults() == [f"{end}: 1"]


def test_the_table_has_a_row_for_each_source() -> None:
    text = table([("file", [0.1, 0.2, 0.3], [1.9]), ("page", [0.2], [])])

    assert text.splitlines()[2:] == [
        "file        0.200    0.300         1.90",
        "page        0.200    0.200            -",
    ]
