"""The collectors `youtube` and `url` list what their parameters name."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from mesh.errors import MeshError, SourceRefusedError, UnavailableError
from mesh.reasons import Reason
from mesh.server import running_server
from orchestrator.pipeline.stages import STAGES, open_stages
from orchestrator.settings import Settings
from orchestrator.tasks.builtin.sources import DESCRIPTIONS, Sources
from orchestrator.tasks.listing import Lister
from orchestrator.tasks.types import COLLECTOR, Registered
from orchestrator.tasks.validation import check_parameters
from orchestrator.worker.readiness import Readiness
from tests.orchestrator.tasks.services import struct
from tests.support.scripted import Script
from tests.support.scripted_stages import scripted_services
from ytcaption.v1 import collector_service_pb2 as pb
from ytcaption.v1 import task_pb2

CHANNEL = "https://www.youtube.com/@canal_exemplo"


@pytest.fixture
async def sources(script: Script) -> AsyncIterator[Sources]:
    async with running_server(scripted_services(script), grace_seconds=0) as stages:
        address: dict[str, Any] = {stage.name: f"127.0.0.1:{stages.port}" for stage in STAGES}
        settings = Settings(**address)
        async with open_stages(settings) as opened:

            async def free() -> None: ...

            yield Sources(Lister(opened, Readiness(opened, free), settings))


async def found_by(sources: Sources, parameters: dict[str, Any], **more: Any) -> list[str]:
    request = pb.CollectRequest(type="youtube", parameters=struct(parameters), **more)
    async with aclosing(sources.collect(request)) as found:
        return [one.recording.url async for one in found if one.key == one.recording.url]


async def test_a_channel_of_the_original_contract_is_listed(
    sources: Sources, script: Script
) -> None:
    script.listings[CHANNEL] = ["http://a.test/1", "http://a.test/2"]

    found = await found_by(sources, {"canal": "canal_exemplo", "periodo": "2025-10"}, max_items=5)

    assert found == ["http://a.test/1", "http://a.test/2"]
    [asked] = script.resolves
    assert (asked.source_url, asked.max_videos) == (CHANNEL, 5)
    assert (asked.from_date, asked.to_date) == ("2025-10-01", "2025-10-31")


async def test_several_names_are_one_list_without_repeats(sources: Sources, script: Script) -> None:
    script.listings[CHANNEL] = ["http://a.test/1", "http://a.test/2"]
    script.listings["http://b.test/feed"] = ["http://a.test/2", "http://a.test/3"]

    found = await found_by(
        sources,
        {
            "video": "http://a.test/3",
            "canal": ["canal_exemplo", "@canal_exemplo"],
            "url": "http://b.test/feed",
        },
        from_date="2025-01-01",
    )

    assert found == ["http://a.test/3", "http://a.test/1", "http://a.test/2"]
    assert [one.from_date for one in script.resolves] == ["2025-01-01"] * 2


async def test_a_listing_that_breaks_off_fails_as_the_downloader_says(
    sources: Sources, script: Script
) -> None:
    for error in (
        SourceRefusedError("gone", reason=Reason.VIDEO_NOT_FOUND),
        UnavailableError("slow down", reason=Reason.RATE_LIMITED, retry_after_seconds=9),
    ):
        script.listings[CHANNEL] = ["http://a.test/1", "http://a.test/2"]
        script.listing_failures = [(1, error)]
        with pytest.raises(MeshError) as caught:
            await found_by(sources, {"canal": "canal_exemplo"})
        assert caught.value.reason == error.reason
        assert caught.value.retry_after_seconds == error.retry_after_seconds


@pytest.mark.parametrize(
    "parameters", [{"canal": "no such / name"}, {"url": "ftp://a.test"}, {"periodo": "soon"}]
)
async def test_names_that_cannot_be_are_refused(
    sources: Sources, parameters: dict[str, Any]
) -> None:
    with pytest.raises(MeshError) as caught:
        await found_by(sources, {"video": "http://a.test/1"} | parameters)

    assert caught.value.reason == Reason.PARAMETERS_INVALID


@pytest.mark.parametrize(
    ("name", "parameters", "fits"),
    [
        ("youtube", {"canal": "x", "periodo": "2025"}, True),
        ("youtube", {"canal": ["x", "y"]}, True),
        ("youtube", {"busca": "corujas"}, True),
        ("youtube", {}, False),
        ("youtube", {"periodo": "2025"}, False),
        ("youtube", {"canal": 5}, False),
        ("youtube", {"canal": []}, False),
        ("youtube", {"canal": "x", "other": "y"}, False),
        ("url", {"url": "http://a.test"}, True),
        ("url", {"canal": "x"}, False),
    ],
)
def test_the_schema_says_what_the_parameters_are(
    name: str, parameters: dict[str, Any], fits: bool
) -> None:
    registered = Registered(
        name, COLLECTOR, task_pb2.TASK_TRANSPORT_BUILT_IN, 1, 1, DESCRIPTIONS[name]
    )
    spec = task_pb2.SourceSpec(type=name, parameters=struct(parameters))
    if fits:
        check_parameters(registered, spec)
        return
    with pytest.raises(MeshError) as caught:
        check_parameters(registered, spec)
    assert caught.value.reason == Reason.PARAMETERS_INVALID
