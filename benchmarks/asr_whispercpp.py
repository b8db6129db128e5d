"""whisper.cpp as pywhispercpp calls it, in a process of its own: a JSON line in, a JSON line out.

`python -m benchmarks.asr_whispercpp base.bin --language auto`, with weights of benchmarks.asr_ggml.
"""

from pathlib import Path
from time import perf_counter
from typing import Any

import _pywhispercpp as bindings
import click
from pywhispercpp.model import Model, Segment

from benchmarks.asr_answers import answer
from benchmarks.asr_recordings import RATE, load_samples

BEAM_SEARCH = 1
"""The strategy; 0 is greedy."""
ITS_OWN_PATIENCE = -1.0
TICKS_A_SECOND = 100


class WhisperCpp:
    """One loaded model; all that is not given has the default of pywhispercpp."""

    def __init__(self, weights: Path, beam: int, threads: int, language: str) -> None:
        self._model: Any = Model(
            str(weights),
            params_sampling_strategy=BEAM_SEARCH,
            beam_search={"beam_size": beam, "patience": ITS_OWN_PATIENCE},
            n_threads=threads,
            language=language,
            print_progress=False,
        )

    def hear(self, path: str) -> dict[str, Any]:
        """Everything said, with the moments it was there; the clock runs once the audio is here."""
        audio = load_samples(path)
        pieces = []

        def note(segment: Segment) -> None:
            start, end = segment.t0 / TICKS_A_SECOND, segment.t1 / TICKS_A_SECOND
            pieces.append((start, end, segment.text, perf_counter() - began))

        began = perf_counter()
        self._model.transcribe(audio, new_segment_callback=note)
        wall_seconds = perf_counter() - began
        number = bindings.whisper_full_lang_id(self._model._ctx)
        return {
            "wall_seconds": wall_seconds,
            "pieces": pieces,
            "ended_at": len(audio) / RATE,
            "language": bindings.whisper_lang_str(number),
        }


@click.command(help=__doc__)
@click.argument("weights", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--beam", type=click.IntRange(1, 8), default=5)
@click.option("--threads", type=click.IntRange(min=1), default=1)
@click.option("--language", default="auto")
def main(weights: Path, beam: int, threads: int, language: str) -> None:
    """Answers until its input ends."""
    answer({"hear": WhisperCpp(weights, beam, threads, language).hear})


if __name__ == "__main__":
    main()
