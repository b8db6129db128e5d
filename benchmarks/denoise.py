"""Does a filter help the ear, the model, both or neither?

    python -m benchmarks.denoise folder --out out

The folder holds recordings of speech, each with what is said in a .txt of the same name. Each is
mixed with noise and music at several levels and goes through the real normalizer with each option.
Then the model hears both outputs: what the transcriber gets, and the kept audio, which every
filter has touched. Where the two differ, the figures say which of them it should get.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
from faster_whisper import WhisperModel
from rich.console import Console
from rich.table import Table

from benchmarks.asr_words import Errors, count_errors
from benchmarks.denoise_treatments import TREATMENTS, Normalizer, decoded
from benchmarks.mixing import RATE, Wave, babble, mixed, music, pink, speech_ratio, white
from normalizer.engine import SAMPLE_RATE
from transcriber.settings import Settings
from transcriber.weights import locate

CLEAN = "clean"
NOISES: dict[str, Callable[[int, Wave], Wave]] = {
    "white": lambda length, _: white(length),
    "pink": lambda length, _: pink(length),
    "babble": babble,
    "music": lambda length, _: music(length),
}


@dataclass(frozen=True, slots=True)
class Spoken:
    """A recording and what is said in it."""

    sound: Wave
    reference: str
    language: str


@dataclass(frozen=True, slots=True)
class Row:
    """One treatment of all recordings, spoiled in one way."""

    noise: str
    decibels: float | None
    treatment: str
    samples_wer: float
    """Percent of words misheard when the model hears what the transcriber gets."""
    kept_wer: float
    """The same when it hears the kept audio."""
    kept_gain: float
    """By how many dB the speech in the kept audio stands out more than before."""


class Model:
    """Hears; what it has heard before it remembers."""

    def __init__(self, name: str) -> None:
        weights = locate(name, Settings().cache_dir, "cpu")
        self.name = weights.name
        self._model: Any = WhisperModel(str(weights.folder), device="cpu", compute_type="int8")
        self._heard: dict[int, str] = {}

    def language(self, sound: Wave) -> str:
        """As Whisper names it."""
        code, _, _ = self._model.detect_language(sound.astype(np.float32), vad_filter=True)
        return str(code)

    def hear(self, sound: Wave, language: str) -> str:
        """Everything said."""
        key = hash(sound.tobytes())
        if key not in self._heard:
            segments, _ = self._model.transcribe(
                sound.astype(np.float32),
                language=language,
                beam_size=1,
                temperature=0,
                vad_filter=True,
                condition_on_previous_text=False,
            )
            self._heard[key] = " ".join(segment.text for segment in segments)
        return self._heard[key]


def read(folder: Path, model: Model) -> list[Spoken]:
    """Every recording that has a reference beside it."""
    found = []
    for path in sorted(folder.iterdir()):
        text = path.with_suffix(".txt")
        if path.suffix == ".txt" or not text.is_file():
            continue
        media = path.read_bytes()
        language = model.language(decoded(media, SAMPLE_RATE))
        found.append(Spoken(decoded(media, RATE), text.read_text("utf-8").strip(), language))
    if not found:
        raise click.ClickException(f"{folder} has no recording with a .txt beside it")
    return found


def spoiled(
    speech: list[Spoken], noises: tuple[str, ...], levels: tuple[float, ...]
) -> Iterator[tuple[str, float | None, list[Wave]]]:
    """All recordings as they are, then with each noise at each level."""
    yield CLEAN, None, [each.sound for each in speech]
    talk = np.concatenate([each.sound for each in speech])
    for name in noises:
        made = [NOISES[name](len(each.sound), talk) for each in speech]
        for level in levels:
            pairs = zip(speech, made, strict=True)
            yield name, level, [mixed(each.sound, noise, level) for each, noise in pairs]


@dataclass(frozen=True, slots=True)
class Case:
    """One spoiled recording, and what to compare with."""

    spoken: Spoken
    sound: Wave
    truth: Wave
    """The speech alone."""
    ratio: float
    """How far it stands out of the kept audio if nothing is done."""


def cases_of(speech: list[Spoken], sounds: list[Wave], normalizer: Normalizer) -> list[Case]:
    """Done once for all treatments."""
    nothing = TREATMENTS["nothing"]
    cases = []
    for each, sound in zip(speech, sounds, strict=True):
        truth = normalizer.treat(each.sound, nothing).samples
        ratio = speech_ratio(normalizer.treat(sound, nothing).kept, truth)
        cases.append(Case(each, sound, truth, ratio))
    return cases


def measured(
    cases: list[Case], treatment: str, model: Model, normalizer: Normalizer
) -> tuple[float, float, float]:
    """Both word error rates, and the gain in the kept audio."""
    samples: list[Errors] = []
    kept: list[Errors] = []
    gains: list[float] = []
    for case in cases:
        treated = normalizer.treat(case.sound, TREATMENTS[treatment])
        gains.append(speech_ratio(treated.kept, case.truth) - case.ratio)
        language, reference = case.spoken.language, case.spoken.reference
        for wave, errors in ((treated.samples, samples), (treated.kept, kept)):
            errors.append(count_errors(reference, model.hear(wave, language), language))
    return Errors.total(samples).percent, Errors.total(kept).percent, float(np.mean(gains))


def table_of(rows: list[Row], model: str) -> Table:
    """For people."""
    table = Table(title=f"word error rate of {model}, in percent")
    for heading in ("noise", "dB", "option", "transcriber hears", "kept audio", "speech gain, dB"):
        table.add_column(heading)
    for row in rows:
        level = "" if row.decibels is None else f"{row.decibels:g}"
        gain = "" if row.noise == CLEAN else f"{row.kept_gain:+.1f}"
        errors = (f"{figure:.1f}" for figure in (row.samples_wer, row.kept_wer))
        table.add_row(row.noise, level, row.treatment, *errors, gain)
    return table


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("out"))
@click.option("--model", "model_name", default="auto", help="As TRANSCRIBER_MODEL.")
@click.option("--noise", "noises", multiple=True, type=click.Choice(list(NOISES)))
@click.option("--level", "levels", multiple=True, type=float, help="dB; 20, 10, 5, 0 if not given.")
@click.option("--option", "treatments", multiple=True, type=click.Choice(list(TREATMENTS)))
def main(  # noqa: PLR0913 # one for each thing that can be asked for
    folder: Path,
    out: Path,
    model_name: str,
    noises: tuple[str, ...],
    levels: tuple[float, ...],
    treatments: tuple[str, ...],
) -> None:
    """Measures and writes denoise.json."""
    model = Model(model_name)
    speech = read(folder, model)
    out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    with TemporaryDirectory() as work:
        normalizer = Normalizer(Path(work))
        for noise, level, sounds in spoiled(
            speech, noises or tuple(NOISES), levels or (20, 10, 5, 0)
        ):
            cases = cases_of(speech, sounds, normalizer)
            for treatment in treatments or TREATMENTS:
                figures = measured(cases, treatment, model, normalizer)
                rows.append(Row(noise, level, treatment, *figures))
            # As it goes: who stops a long run keeps what was measured.
            result = {"model": model.name, "rows": [asdict(row) for row in rows]}
            (out / "denoise.json").write_text(json.dumps(result, indent=1))
    Console(width=110).print(table_of(rows, model.name))


if __name__ == "__main__":
    main()
