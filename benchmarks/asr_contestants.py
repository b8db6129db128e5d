"""Who is compared, each in a process of its own: our transcriber, and others on Whisper."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import click
from google.protobuf.duration import to_timedelta

from benchmarks.asr_heard import Heard, Piece, peak_noted
from benchmarks.asr_peers import PEERS
from benchmarks.asr_recordings import Recording, write_wav
from benchmarks.children import child, last_words
from cli.channel import is_serving
from mesh.addresses import free_ports
from mesh.channel import open_channel
from mesh.frames import MAX_FRAME_BYTES, truthful
from transcriber.model.backends import DEFAULT
from transcriber.model.weights import locate
from transcriber.settings import Settings
from ytcaption.v1 import transcriber_service_pb2 as pb
from ytcaption.v1.transcriber_service_pb2_grpc import TranscriberServiceStub

OURS = "ours"
SEQUENTIAL = "sequential"
BATCHED = "batched-"
COMMAND = "whisper-ctranslate2"
CPP = "whisper.cpp"
CPP_Q8 = "whisper.cpp-q8_0"
CPP_PACKAGE = "pywhispercpp"
CPP_MAX_BEAM = 8
SERVICE = pb.DESCRIPTOR.services_by_name["TranscriberService"].full_name
START_SECONDS = 300.0
HEAR_SECONDS = 7200.0


@dataclass(frozen=True, slots=True)
class Terms:
    """Settings all contestants share."""

    model: str
    beam: int
    compute_type: str
    threads: int


class Contestant(Protocol):
    """Transcribes recordings."""

    @property
    def name(self) -> str:
        """Its name in the table."""

    async def hear(self, recording: Recording) -> Heard:
        """All that is said in one; may be called for several at once."""


class Ours:
    """The transcriber as a service, fed over gRPC as the orchestrator does."""

    name = OURS

    def __init__(self, stub: TranscriberServiceStub, pid: int, *, words: bool) -> None:
        self._stub = stub
        self._pid = pid
        self._words = words

    async def hear(self, recording: Recording) -> Heard:
        """Frames go in as fast as the service takes them."""
        heard = Heard()
        async with peak_noted(heard, self._pid), asyncio.timeout(HEAR_SECONDS):
            began = perf_counter()
            call: Any = truthful(self._stub.Transcribe(_frames(recording, words=self._words)))
            try:
                async for response in call:
                    _note(response, heard, perf_counter() - began)
            finally:
                call.cancel()
        if not heard.wall_seconds:
            raise click.ClickException(f"{self.name} ended before it finished {recording.name}")
        return heard


async def _frames(recording: Recording, *, words: bool) -> AsyncIterator[pb.TranscribeRequest]:
    start = pb.TranscribeStart(job_id=f"benchmark-{recording.name}", word_timestamps=words)
    yield pb.TranscribeRequest(start=start)
    for samples in _samples(recording.path):
        yield pb.TranscribeRequest(audio=samples)


def _samples(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while samples := file.read(MAX_FRAME_BYTES):
            yield samples


def _note(response: pb.TranscribeResponse, heard: Heard, at: float) -> None:
    match response.WhichOneof("event"):
        case "segment":
            segment = response.segment
            start = to_timedelta(segment.start_offset).total_seconds()
            end = to_timedelta(segment.end_offset).total_seconds()
            words = [(word.text, word.confidence) for word in segment.words]
            heard.pieces.append(Piece(start, end, segment.text, at, segment.confidence, words))
        case "finished":
            heard.wall_seconds = at
            heard.ended_at = to_timedelta(response.finished.duration).total_seconds()
            heard.language = response.finished.language


class BareChild:
    """A process of benchmarks.asr_bare or asr_whispercpp; it does one thing at a time."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log
        self._turn = asyncio.Lock()

    async def hear(self, recording: Recording) -> Heard:
        """The clock runs in the child, once it has the samples."""
        heard = Heard()
        async with self._turn, peak_noted(heard, self._process.pid):
            found = await self._ask("hear", str(recording.path))
        heard.wall_seconds = found["wall_seconds"]
        heard.pieces = [Piece(*piece) for piece in found["pieces"]]
        heard.ended_at = found["ended_at"]
        heard.language = found["language"]
        return heard

    async def language_of(self, recording: Recording) -> str:
        """What is spoken in it, as the model takes it."""
        async with self._turn:
            return str((await self._ask("detect", str(recording.path)))["language"])

    async def is_multilingual(self) -> bool:
        """Whether it can tell languages apart."""
        async with self._turn:
            return bool((await self._ask("multilingual", ""))["multilingual"])

    async def _ask(self, act: str, path: str) -> dict[str, Any]:
        assert self._process.stdin is not None  # noqa: S101 # made with pipes
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.write(json.dumps({"act": act, "path": path}).encode() + b"\n")
        async with asyncio.timeout(HEAR_SECONDS):
            line = await self._process.stdout.readline()
        if not line:
            raise click.ClickException(f"{self.name} ended: {last_words(self._log)}")
        answer: dict[str, Any] = json.loads(line)
        return answer


class WhisperCommand:
    """The command whisper-ctranslate2 as its users run it: a process for each recording.

    Its time includes its start and the loading of the model, which the others have done before.
    """

    name = COMMAND

    def __init__(self, terms: Terms, work: Path) -> None:
        program = Path(sys.executable).with_name(COMMAND)
        if not program.is_file():
            raise _missing(COMMAND)
        weights = locate(terms.model, Settings().cache_dir, "cpu")
        options = {
            "--model_directory": str(weights.folder),
            "--beam_size": str(terms.beam),
            "--compute_type": terms.compute_type,
            "--threads": str(terms.threads),
            "--device": "cpu",
            "--output_format": "json",
            "--output_dir": str(work),
            "--verbose": "True",
        }
        if terms.model.endswith(".en"):
            options["--language"] = "en"
        self._command = [str(program), *(word for option in options.items() for word in option)]
        self._work = work
        self._turn = asyncio.Lock()

    async def hear(self, recording: Recording) -> Heard:
        """Runs the command; a piece is there once its line is printed."""
        heard, log = Heard(), self._work / f"{COMMAND}.log"
        async with self._turn, asyncio.timeout(HEAR_SECONDS):
            audio = await asyncio.to_thread(write_wav, recording.path)
            began = perf_counter()
            command, unbuffered = [*self._command, str(audio)], {"PYTHONUNBUFFERED": "1"}
            async with (
                child(command, unbuffered, log, spoken_to=True) as process,
                peak_noted(heard, process.pid),
            ):
                moments = await _printed_at(process, began)
                await process.wait()
            if process.returncode:
                raise click.ClickException(f"{self.name} failed: {last_words(log)}")
            heard.wall_seconds = perf_counter() - began
            written = json.loads((self._work / f"{audio.stem}.json").read_text(encoding="utf-8"))
        heard.pieces = [
            Piece(one["start"], one["end"], one["text"], moment)
            for one, moment in zip(written["segments"], moments, strict=True)
        ]
        heard.ended_at = recording.seconds
        heard.language = written["language"]
        return heard


async def _printed_at(process: asyncio.subprocess.Process, began: float) -> list[float]:
    """When each segment was printed: the lines that begin with its times in brackets."""
    assert process.stdout is not None  # noqa: S101 # made with pipes
    moments = []
    async for line in process.stdout:
        if line.startswith(b"[") and b" --> " in line:
            moments.append(perf_counter() - began)
    return moments


def _missing(name: str) -> click.ClickException:
    return click.ClickException(f"{name} is missing: python scripts/install --dependencies bench")


@asynccontextmanager
async def contestants(
    ways: Sequence[str], terms: Terms, work: Path
) -> AsyncIterator[list[Contestant]]:
    """All contestants, loaded; idle while another is measured."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(contestant(way, terms, work)) for way in ways]


@asynccontextmanager
async def contestant(way: str, terms: Terms, work: Path) -> AsyncIterator[Contestant]:
    """Starts one contestant."""
    if way == OURS:
        async with ours(terms, work) as ready:
            yield ready
    elif way == COMMAND:
        yield WhisperCommand(terms, work)
    elif way in (CPP, CPP_Q8):
        async with whisper_cpp(way, terms, work) as child_ready:
            yield child_ready
    else:
        async with bare(way, terms, work) as child_ready:
            yield child_ready


def batch_of(way: str) -> int:
    """The size of a batch of a bare way; 0: sequential."""
    return int(way.removeprefix(BATCHED)) if way.startswith(BATCHED) else 0


@asynccontextmanager
async def bare(way: str, terms: Terms, work: Path) -> AsyncIterator[BareChild]:
    """faster-whisper: "sequential", "batched-" and the size of a batch, or as a peer calls it."""
    options = {
        "--batch": str(batch_of(way)),
        "--beam": str(terms.beam),
        "--compute-type": terms.compute_type,
        "--threads": str(terms.threads),
    }
    flat = [word for option in options.items() for word in option]
    flat += ["--peer", way] if way in PEERS else []
    command = [sys.executable, "-m", "benchmarks.asr_bare", terms.model, *flat]
    log = work / f"{way}.log"
    async with child(command, {}, log, spoken_to=True) as process:
        yield BareChild(way, process, log)


@asynccontextmanager
async def whisper_cpp(way: str, terms: Terms, work: Path) -> AsyncIterator[BareChild]:
    """whisper.cpp with the same weights as 16-bit floats, or as Q8_0; its file is written first."""
    if find_spec(CPP_PACKAGE) is None:
        raise _missing(CPP_PACKAGE)
    if terms.beam > CPP_MAX_BEAM:
        raise click.ClickException(f"{way} takes a beam of {CPP_MAX_BEAM} at most")
    weights, log = work / f"{way}.bin", work / f"{way}.log"
    convert = [sys.executable, "-m", "benchmarks.asr_ggml", terms.model, str(weights)]
    convert += ["--quantised"] if way == CPP_Q8 else []
    async with child(convert, {}, log) as process:
        if await process.wait():
            raise click.ClickException(f"{way} has no weights: {last_words(log)}")
    options = {
        "--beam": str(terms.beam),
        "--threads": str(terms.threads),
        "--language": "en" if terms.model.endswith(".en") else "auto",
    }
    flat = [word for option in options.items() for word in option]
    command = [sys.executable, "-m", "benchmarks.asr_whispercpp", str(weights), *flat]
    async with child(command, {}, log, spoken_to=True) as process:
        yield BareChild(way, process, log)


@asynccontextmanager
async def ours(terms: Terms, work: Path, *, words: bool = False) -> AsyncIterator[Ours]:
    """A transcriber of its own on a free port; with `words`, it gives their times, too.

    With the default compute type it takes the backend that it measures at its first start on this
    machine, as it does with `ytcaption up`.
    """
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    variables = {
        "LISTEN": listen,
        "METRICS_LISTEN": "",
        "MODEL": terms.model,
        "DEVICE": "cpu",
        "BEAM_SIZE": str(terms.beam),
        "COMPUTE_TYPE": "auto"
        if terms.compute_type == DEFAULT.compute_type
        else terms.compute_type,
        "MEASURE_BACKENDS": os.environ.get("TRANSCRIBER_MEASURE_BACKENDS", "true"),
        "CPU_THREADS": str(terms.threads),
    }
    environment = {f"TRANSCRIBER_{name}": value for name, value in variables.items()}
    log = work / "transcriber.log"
    async with child([sys.executable, "-m", "transcriber"], environment, log) as process:
        async with asyncio.timeout(START_SECONDS):
            while process.returncode is None and not await is_serving(listen):  # noqa: ASYNC110 # another process
                await asyncio.sleep(0.1)
        if process.returncode is not None:
            raise click.ClickException(f"the transcriber did not start: {last_words(log)}")
        async with open_channel(listen, SERVICE) as channel:
            yield Ours(TranscriberServiceStub(channel), process.pid, words=words)
