"""Every bad input has its own reason, and none opens other files or addresses."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from mesh.errors import LimitExceededError, MeshError, UnusableMediaError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason
from mesh.status import reason_of
from normalizer.engine import Options, Request
from normalizer.ffmpeg_engine import FfmpegEngine
from tests.normalizer.conftest import EngineMaker
from tests.normalizer.media import (
    PICTURE,
    endless_wav,
    fast_m4a,
    files_in,
    normalized,
    recording,
    sent,
    slow_m4a,
    wave,
)
from ytcaption.v1 import normalizer_service_pb2 as pb
from ytcaption.v1 import normalizer_service_pb2_grpc as rpc

HTML = b"<!doctype html><html><head><title>404</title></head><body>Not found</body></html>"
ID3 = b"ID3\x04\x00\x00\x00\x00\x00\x00"

BAD: dict[str, tuple[Callable[[], bytes], Reason]] = {
    "no bytes": (lambda: b"", Reason.EMPTY_MEDIA),
    "one byte": (lambda: b"x", Reason.NOT_MEDIA),
    "text": (lambda: b"This is not the song you are looking for.\n" * 999, Reason.NOT_MEDIA),
    "html": (lambda: HTML, Reason.NOT_MEDIA),
    "json": (lambda: b'{"error": {"code": 403, "message": "denied"}}', Reason.NOT_MEDIA),
    "zeros": (lambda: bytes(300_000), Reason.NOT_MEDIA),
    "a picture": (
        lambda: recording("png", "-frames:v", "1", sound="", picture=PICTURE),
        Reason.NOT_MEDIA,
    ),
    "subtitles": (lambda: b"1\n00:00:01,000 --> 00:00:02,000\nhello\n\n", Reason.NOT_MEDIA),
    "hls playlist": (lambda: b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n", Reason.NOT_MEDIA),
    "concat list": (lambda: b"ffconcat version 1.0\nfile /etc/passwd\n", Reason.NOT_MEDIA),
    "a silent film": (
        lambda: recording("mp4", "-movflags", "+faststart", sound="", picture=PICTURE),
        Reason.NO_AUDIO,
    ),
    "a silent film, index last": (
        lambda: recording("mp4", sound="", picture=PICTURE),
        Reason.NO_AUDIO,
    ),
    "mp4 without its index": (lambda: slow_m4a()[:20_000], Reason.CORRUPT_MEDIA),
    "mp4 cut in its index": (lambda: fast_m4a()[:400], Reason.CORRUPT_MEDIA),
    "mp4 cut after its index": (
        lambda: fast_m4a()[: fast_m4a().index(b"mdat") + 4],
        Reason.CORRUPT_MEDIA,
    ),
    "wav header only": (lambda: recording("wav")[:36], Reason.CORRUPT_MEDIA),
    "matroska header only": (lambda: recording("mkv")[:60], Reason.CORRUPT_MEDIA),
    "flac full of noise": (
        lambda: recording("flac")[:42] + b"\x5a\xa5\x13" * 30_000,
        Reason.CORRUPT_MEDIA,
    ),
}


@pytest.mark.parametrize("kind", BAD)
async def test_each_bad_input_has_its_reason(
    engine: FfmpegEngine, work_dir: Path, kind: str
) -> None:
    make, reason = BAD[kind]

    with pytest.raises(UnusableMediaError) as caught:
        await normalized(engine, make(), Request(keep_audio=True))

    assert caught.value.reason is reason
    assert not files_in(work_dir)


async def test_a_recording_without_samples_is_empty(engine: FfmpegEngine) -> None:
    with pytest.raises(UnusableMediaError) as caught:
        await normalized(engine, recording("wav", "-t", "0"))

    assert caught.value.reason is Reason.EMPTY_MEDIA


@pytest.mark.parametrize("prefix", [b"", ID3])
async def test_a_playlist_called_mp3_opens_nothing(
    engine: FfmpegEngine, tmp_path: Path, prefix: bytes
) -> None:
    connections = 0

    async def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    real = tmp_path / "secret.wav"
    real.write_bytes(recording("wav"))
    async with await asyncio.start_server(count, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        lists = [
            f"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n{target}\n#EXT-X-ENDLIST\n"
            for target in (f"http://127.0.0.1:{port}/x.ts", f"file://{real}", str(real))
        ] + [f"ffconcat version 1.0\nfile '{real}'\n"]
        for playlist in lists:
            with pytest.raises(UnusableMediaError) as caught:
                await normalized(engine, prefix + playlist.encode())
            assert caught.value.reason is Reason.NOT_MEDIA
    assert connections == 0


@pytest.mark.parametrize(
    ("make", "least"),
    [
        (lambda: fast_m4a()[: len(fast_m4a()) // 2], 1.0),
        (lambda: recording("wav")[:200_001], 2.0),
        (lambda: recording("mp3")[:20_000], 2.0),
        (lambda: recording("flac")[:20_000], 0.5),
    ],
    ids=["m4a", "wav", "mp3", "flac"],
)
async def test_truncated_media_gives_what_it_has_and_a_warning(
    engine: FfmpegEngine, make: Callable[[], bytes], least: float
) -> None:
    outcome = await normalized(engine, make())

    assert least <= outcome.seconds < 3.9
    assert wave(outcome.samples).any()
    assert outcome.finished[0].warnings


async def test_damage_in_the_middle_loses_only_the_middle(engine: FfmpegEngine) -> None:
    good = recording("mp3")
    middle = len(good) // 2

    outcome = await normalized(engine, good[:middle] + b"\x13" * 1000 + good[middle + 1000 :])

    assert 3.5 < outcome.seconds <= 4.1
    assert outcome.finished[0].warnings


async def test_the_length_limit_applies_to_the_decoded_audio(
    make_engine: EngineMaker,
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for chunk in endless_wav(100 * 1024 * 1024):
            yield chunk

    with pytest.raises(LimitExceededError) as caught:
        await normalized(make_engine(max_duration=5), endless())

    assert caught.value.reason is Reason.TOO_LONG


async def test_a_caller_may_lower_the_limit_but_not_raise_it(
    make_engine: EngineMaker,
) -> None:
    for limit, wanted in ((3600, 2), (2, 3600)):
        request = Request(max_duration=timedelta(seconds=wanted))
        with pytest.raises(LimitExceededError) as caught:
            await normalized(make_engine(max_duration=limit), recording("wav"), request)
        assert caught.value.reason is Reason.TOO_LONG

    exact = Request(max_duration=timedelta(seconds=4))
    assert (await normalized(make_engine(), recording("wav"), exact)).finished


async def test_media_too_large_for_the_spool_is_refused_and_removed(
    make_engine: EngineMaker, work_dir: Path
) -> None:
    with pytest.raises(LimitExceededError) as caught:
        await normalized(make_engine(max_spool_bytes=20_000), slow_m4a())

    assert caught.value.reason is Reason.TOO_LARGE
    assert not files_in(work_dir)


async def test_media_read_from_a_pipe_needs_no_spool(
    make_engine: EngineMaker, work_dir: Path
) -> None:
    assert (await normalized(make_engine(max_spool_bytes=1), fast_m4a())).finished
    assert not files_in(work_dir)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Request(Options(loudness_lufs=0.0)), Reason.REQUEST_INVALID),
        (Request(Options(loudness_lufs=-71.0)), Reason.REQUEST_INVALID),
        (Request(Options(loudness_lufs=math.nan)), Reason.REQUEST_INVALID),
        (Request(max_duration=timedelta(0)), Reason.REQUEST_INVALID),
    ],
)
async def test_unsupported_options_are_refused_before_anything_starts(
    engine: FfmpegEngine, request_: Request, reason: Reason
) -> None:
    with pytest.raises(MeshError) as caught:
        await anext(engine.normalize(sent(recording("wav")), request_))

    assert caught.value.reason is reason


def start() -> pb.NormalizeRequest:
    return pb.NormalizeRequest(start=pb.NormalizeStart(job_id="j1"))


def chunk(data: bytes) -> pb.NormalizeRequest:
    return pb.NormalizeRequest(chunk=data)


WAV_HEAD = b"".join(endless_wav(0))

GRAMMAR = {
    "nothing": ([], Reason.START_MISSING),
    "no start": ([chunk(WAV_HEAD)], Reason.START_MISSING),
    "start twice": ([start(), chunk(WAV_HEAD), start()], Reason.START_REPEATED),
    "start twice at once": ([start(), start()], Reason.START_REPEATED),
    "empty frame": ([start(), chunk(WAV_HEAD), pb.NormalizeRequest()], Reason.FRAME_EMPTY),
    "large frame": (
        [start(), chunk(WAV_HEAD), chunk(bytes(MAX_FRAME_BYTES + 1))],
        Reason.FRAME_TOO_LARGE,
    ),
    "empty media": ([start()], Reason.EMPTY_MEDIA),
}


@pytest.mark.parametrize("kind", GRAMMAR)
async def test_frames_out_of_order_are_refused(stub: rpc.NormalizerServiceStub, kind: str) -> None:
    frames, reason = GRAMMAR[kind]

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in stub.Normalize(iter(frames)):
            pass

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason_of(caught.value) == reason
