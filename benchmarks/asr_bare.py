"""faster-whisper as it comes, in a process of its own: a JSON line in, a JSON line out.

`python -m benchmarks.asr_bare base --batch 8`; batch 0 is the sequential way. With --peer it is
called as another program calls it.
"""

import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from pathlib import Path
from time import perf_counter
from typing import Any

import click
from faster_whisper import BatchedInferencePipeline, WhisperModel

from benchmarks.asr_answers import answer
from benchmarks.asr_peers import PEERS, Call
from benchmarks.asr_recordings import load_samples, write_wav
from transcriber.model.weights import locate
from transcriber.settings import Settings


def options_of(batch: int) -> dict[str, Any]:
    """Options of a call besides the beam, by the size of a batch; 0 is the sequential way."""
    if not batch:
        return {"vad_filter": True}
    # Without timestamps it gives a blob for each half minute, which makes no captions.
    return {"vad_filter": True, "batch_size": batch, "without_timestamps": False}


class Bare:
    """One loaded model, and one way to ask it."""

    def __init__(self, model: WhisperModel, call: Call, beam: int) -> None:
        self._model = model
        self._beam = beam
        self._transcribe: Callable[..., tuple[Iterable[Any], Any]] = model.transcribe
        self._call = call
        if call.is_batched:
            self._transcribe = BatchedInferencePipeline(model).transcribe

    def hear(self, path: str) -> dict[str, Any]:
        """Everything said, with the moments it was there; the clock runs once the audio is here."""
        audio = str(write_wav(Path(path))) if self._call.takes_file else load_samples(path)
        began = perf_counter()
        segments, info = self._transcribe(audio, beam_size=self._beam, **self._call.options)
        pieces = [
            (segment.start, segment.end, segment.text, perf_counter() - began)
            for segment in segments
        ]
        wall_seconds = perf_counter() - began
        return {
            "wall_seconds": wall_seconds,
            "pieces": pieces,
            "ended_at": info.duration,
            "language": info.language,
        }

    def detect(self, path: str) -> dict[str, Any]:
        """The language at the beginning."""
        code, probability, _ = self._model.detect_language(load_samples(path), vad_filter=True)
        return {"language": code, "probability": float(probability)}

    def is_multilingual(self, _: str) -> dict[str, Any]:
        """Whether it can tell languages apart."""
        return {"multilingual": bool(self._model.model.is_multilingual)}


@click.command(help=__doc__)
@click.argument("model")
@click.option("--batch", type=click.IntRange(min=0), default=0)
@click.option("--beam", type=click.IntRange(min=1), default=5)
@click.option("--compute-type", default="int8")
@click.option("--threads", type=click.IntRange(min=1), default=1)
@click.option("--peer", type=click.Choice([*PEERS]))
def main(model: str, batch: int, beam: int, compute_type: str, **options: Any) -> None:
    """Answers until its input ends."""
    with redirect_stdout(sys.stderr):  # stdout is for answers; the first use of weights is logged
        weights = locate(model, Settings().cache_dir, "cpu")
    whisper = WhisperModel(
        str(weights.folder),
        device="cpu",
        compute_type=compute_type,
        cpu_threads=options["threads"],
        local_files_only=True,
    )
    peer = options["peer"]
    call = PEERS[peer] if peer else Call(options_of(batch), is_batched=batch > 0)
    bare = Bare(whisper, call, beam)
    answer({"hear": bare.hear, "detect": bare.detect, "multilingual": bare.is_multilingual})


if __name__ == "__main__":
    main()
