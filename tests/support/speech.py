"""Recordings, a scripted decoder, and a transcriber server."""

import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from faster_whisper.audio import decode_audio

from mesh.frames import cut
from mesh.server import Service, running_server
from transcriber.decoder import Audio, DecodeOptions, Decoder, Floats, Phrase
from transcriber.engine import Event, Request, SpeechEngine
from transcriber.servicer import TranscriberServicer
from transcriber.speech.streaming import StreamingEngine
from transcriber.speech.vad import BATCH, SileroDetector, VoiceDetector
from transcriber.speech.windows import CHUNK
from transcriber.translation.translator import Models, Translator
from ytcaption.v1 import transcriber_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2_grpc as rpc

DATA = Path(__file__).parent.parent / "data"
SECOND = 32_000
"""Bytes of one second."""


@cache
def recording(name: str) -> bytes:
    """The samples of a fixture, as the normalizer would send them."""
    audio = decode_audio(str(DATA / f"{name}.ogg"))
    return bytes((audio * 32_767).astype("<i2").tobytes())


def reference(name: str) -> str:
    return words((DATA / f"{name}.txt").read_text())


def words(text: str) -> str:
    """Text as it is compared: no case, no punctuation."""
    return " ".join(re.sub(r"[^\w\s']", " ", text.lower()).split())


class AlwaysSpeech:
    """A voice detector that reports speech everywhere."""

    def judge(self, batch: Floats) -> Floats:
        return np.ones(BATCH // CHUNK, np.float32)


class ScriptedDecoder:
    """Returns text derived from the audio, so that texts differ exactly when windows do."""

    model, device, compute_type = "scripted", "cpu", "int8"

    def __init__(self, languages: frozenset[str] = frozenset({"en", "pt"})) -> None:
        self.languages = languages
        self.translates = True
        self.is_loaded, self.concurrency = True, 1
        self.may_end: Callable[[], bool] = lambda: True
        """What must hold before a decode ends."""
        self.go = threading.Event()
        self.go.set()
        self.busy = threading.Event()
        self.decoded: list[Audio] = []
        self.threads: set[int] = set()
        self.abandoned: list[bool] = []
        """For each decode, whether it was abandoned at its end."""
        self.detected = 0
        self.certainty: list[float] = []
        """Probabilities of Portuguese in the next detections; then 0.9."""

    def ensure_loaded(self) -> None:
        self.is_loaded = True

    def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> dict[str, float]:
        self.detected += 1
        return {"pt": self.certainty.pop(0) if self.certainty else 0.9}

    def decode(
        self, audio: Audio, language: str, options: DecodeOptions, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        self.decoded.append(audio)
        self.threads.add(threading.get_ident())
        self.busy.set()
        self.go.wait(240)
        while not self.may_end():
            time.sleep(0.01)
        self.abandoned.append(abandoned())
        if options.task == "translate":
            return [Phrase(0, 1, " one ", 0.5), Phrase(1, 1.4, " two ", 0.5)]
        name = f"{language} {len(audio)} {np.abs(audio.astype(int)).sum()}"
        return [Phrase(0, 1, f" {name} a ", 0.5), Phrase(1, 2, f" {name} b ", 0.5)]

    def close(self) -> None:
        self.go.set()


async def engine_with(
    decoder: Decoder,
    translator: Translator | None = None,
    *,
    max_recordings: int = 4,
    max_live_streams: int = 4,
    new_detector: Callable[[], VoiceDetector] = SileroDetector,
) -> StreamingEngine:
    engine = StreamingEngine(
        lambda _: Models(decoder, translator),
        lambda _: [],
        beam_size=1,
        max_recordings=max_recordings,
        max_live_streams=max_live_streams,
        new_detector=new_detector,
    )
    await engine.get_ready()
    return engine


async def stream(data: bytes, size: int = 64 * 1024) -> AsyncIterator[bytes]:
    for piece in cut(data, size):
        yield piece


async def events_of(
    engine: SpeechEngine, data: bytes, request: Request | None = None
) -> list[Event]:
    return [event async for event in engine.transcribe(stream(data), request or Request())]


@asynccontextmanager
async def serving(engine: SpeechEngine) -> AsyncIterator[rpc.TranscriberServiceStub]:
    service = Service.of(
        pb.DESCRIPTOR.services_by_name["TranscriberService"],
        rpc.add_TranscriberServiceServicer_to_server,
        TranscriberServicer(engine),
    )
    async with (
        running_server([service], grace_seconds=0) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        yield rpc.TranscriberServiceStub(channel)


def start(**fields: Any) -> pb.TranscribeRequest:
    return pb.TranscribeRequest(start=pb.TranscribeStart(job_id="j1", **fields))


def audio_frames(data: bytes) -> Iterator[pb.TranscribeRequest]:
    for piece in cut(data):
        yield pb.TranscribeRequest(audio=piece)
