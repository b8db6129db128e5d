"""Fetching weights from a hub on loopback with the real client: progress, interruption, resume."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import grpc
import jiwer
import pytest
from huggingface_hub import constants
from structlog.testing import capture_logs

from mesh.addresses import free_ports
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from tests.support.hub_site import COMMIT, HubSite, serving_hub
from tests.support.speech import audio_frames, recording, reference, start, words
from tests.support.transcriber_process import process
from transcriber.model import hub
from transcriber.model.bundled_weights import BUNDLED
from transcriber.speech.streaming import Preparation
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
    pieces = BUNDLED["tiny.en"].files()
    assert pieces is not None, "the offline extra is not installed"
    with serving_hub(pieces[0].parent) as running:
        yield running


@pytest.fixture
def here(site: HubSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Points this process at that hub and at an empty cache folder."""
    monkeypatch.setattr(hub, "ENDPOINT", site.url)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class ProgressRecorder:
    """Records the progress it is called with."""

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


def test_fetched_bytes_rise_to_the_announced_total(site: HubSite, here: Path) -> None:
    progress = ProgressRecorder()

    folder = hub.fetch(NAME, progress)

    total = wanted_bytes(site)
    done = [step[0] for step in progress.steps]
    assert progress.steps[0] == (0, None)
    assert {step[1] for step in progress.steps[1:]} == {total}
    assert done == sorted(done)
    assert len(set(done)) > 3
    assert done[-1] == total
    assert hub.cached(NAME) == folder
    assert (folder / "model.bin").stat().st_size == (site.folder / "model.bin").stat().st_size


def test_a_commit_in_the_name_is_all_the_hub_is_asked_for(site: HubSite, here: Path) -> None:
    pinned = f"{NAME}@{COMMIT}"

    folder = hub.fetch(pinned, lambda *_: None)

    assert site.revisions == {COMMIT}
    assert hub.cached(pinned) == folder
    assert hub.cached(f"{NAME}@{'f' * 40}") is None


def test_without_a_commit_the_one_that_was_fetched_is_kept(site: HubSite, here: Path) -> None:
    with capture_logs() as logs:
        folder = hub.fetch(NAME, lambda *_: None)

    assert {"event": "fetched model", "log_level": "info", "model": NAME, "commit": COMMIT} in logs
    site.revisions.clear()
    assert hub.cached(NAME) == folder
    assert site.revisions == set()


@pytest.mark.parametrize("status_after_break", [None, 503])
def test_an_interrupted_fetch_is_a_typed_error_and_leaves_no_partial_model(
    site: HubSite, here: Path, status_after_break: int | None
) -> None:
    site.break_at, site.status_after_break = 30 * MEGABYTE, status_after_break

    with pytest.raises(UnavailableError, match=NAME) as caught:
        hub.fetch(NAME, ProgressRecorder())

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE
    assert hub.cached(NAME) is None
    assert not has_model(here)


def test_a_fetch_after_an_interrupted_one_is_complete(site: HubSite, here: Path) -> None:
    site.break_at, site.status_after_break = 30 * MEGABYTE, 503
    with pytest.raises(UnavailableError):
        hub.fetch(NAME, ProgressRecorder())
    site.break_at = None

    folder = hub.fetch(NAME, ProgressRecorder())

    assert (folder / "model.bin").read_bytes() == (site.folder / "model.bin").read_bytes()


def test_a_dropped_connection_is_resumed_and_counts_no_byte_twice(
    site: HubSite, here: Path
) -> None:
    site.break_at, site.breaks = 30 * MEGABYTE, 1
    progress = ProgressRecorder()

    folder = hub.fetch(NAME, progress)

    done = [step[0] for step in progress.steps]
    assert [bool(asked) for asked in site.ranges] == [False, True]
    assert done == sorted(done)
    assert done[-1] == wanted_bytes(site)
    assert (folder / "model.bin").read_bytes() == (site.folder / "model.bin").read_bytes()


def test_a_repository_without_a_model_is_refused(site: HubSite, here: Path, tmp_path: Path) -> None:
    site.folder = tmp_path / "empty"
    site.folder.mkdir()
    (site.folder / "config.json").write_text("{}")

    with pytest.raises(UnavailableError, match=r"model\.bin"):
        hub.fetch(NAME, ProgressRecorder())


def test_an_abandoned_fetch_ends_with_its_next_chunk(site: HubSite, here: Path) -> None:
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
    """Points services at that hub, which pauses half way."""
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    site.hold_at = 40 * MEGABYTE
    return site


async def test_a_service_reports_fetch_progress_and_then_transcribes_with_the_fetched_model(
    held_site: HubSite, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    with process(LISTEN=f"127.0.0.1:{port}", MODEL=NAME, CACHE_DIR=str(tmp_path)):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = rpc.TranscriberServiceStub(channel)
            half_way = await _until_fetched(stub, 30 * MEGABYTE)
            frames = [start(language="en"), *audio_frames(recording("sample"))]
            progress = aiter(stub.Transcribe(iter(frames)))
            events = [await anext(progress)]
            held_site.go_on.set()
            events += [event async for event in progress]
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
    transcript = " ".join(event.segment.text for event in events if event.HasField("segment"))
    assert jiwer.wer(reference("sample"), words(transcript)) < 0.1
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


async def test_a_service_stopped_during_a_fetch_exits_at_once(
    held_site: HubSite, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    with process(
        LISTEN=f"127.0.0.1:{port}", MODEL=NAME, CACHE_DIR=str(tmp_path), GRACE_SECONDS="0"
    ) as running:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await _until_fetched(rpc.TranscriberServiceStub(channel), 30 * MEGABYTE)
        running.send_signal(signal.SIGTERM)
        held_site.go_on.set()  # the next chunk finds the fetch abandoned
        code = await asyncio.to_thread(running.wait, 20)

    assert code == 0
    assert not has_model(tmp_path)
