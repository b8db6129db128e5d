"""Does a filter help the ear, the model, both or neither?

    python -m benchmarks.denoise folder --out out

The folder holds recordings of speech, each with what is said in a .txt of the same name. Those of
one language are made equally strong and joined; the whole is mixed with noise and music at several
levels and goes through the real normalizer with each option.
Then the real transcriber hears both outputs: what it gets, and the kept audio, which every filter
has touched. Where the two differ, the figures say which of them it should get.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.asr_words import Errors, count_errors
from benchmarks.denoise_hearing import Model
from benchmarks.denoise_treatments import NOTHING, TREATMENTS, Normalizer, Treated, decoded
from benchmarks.mixing import (
    RATE,
    Wave,
    babble,
    mixed,
    music,
    pink,
    scaled,
    speech_ratio,
    white,
)
from normalizer.engine import SAMPLE_RATE

CLEAN = "clean"
STRENGTH = 0.025
"""Root mean square of every recording before they are joined; leaves room for the peaks."""
PAUSE = np.zeros(RATE)
NOISES: dict[str, Callable[[int, Wave], Wave]] = {
    "white": lambda length, _: white(length),
    "pink": lambda length, _: pink(length),
    "babble": babble,
    "music": lambda length, _: music(length),
}


@dataclass(frozen=True, slots=True)
class Talk:
    """Recordings in one language, joined, and what is said in them."""

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


def read(folder: Path, model: Model, only: str = "") -> list[Talk]:
    """Every recording that has a reference beside it, those of each language joined."""
    sounds: dict[str, list[Wave]] = {}
    references: dict[str, list[str]] = {}
    for path in sorted(folder.iterdir()):
        text = path.with_suffix(".txt")
        if path.suffix == ".txt" or not text.is_file():
            continue
        media = path.read_bytes()
        language = model.language(decoded(media, SAMPLE_RATE))
        sounds.setdefault(language, []).append(decoded(media, RATE))
        references.setdefault(language, []).append(text.read_text("utf-8").strip())
    chosen = [language for language in sounds if only in ("", language)]
    if not chosen:
        raise click.ClickException(f"{folder} has no such recording with a .txt beside it")
    return [Talk(joined(sounds[each]), " ".join(references[each]), each) for each in chosen]


def joined(sounds: list[Wave]) -> Wave:
    """One after the other, equally strong, so that one level of noise is the same for all."""
    parts = [part for sound in sounds for part in (PAUSE, scaled(sound, STRENGTH))]
    return np.concatenate(parts[1:])


Mix = tuple[str, float | None, list[Wave]]
"""Which noise, at which level, and what becomes of each talk."""


def spoiled(
    speech: list[Talk], noises: tuple[str, ...], levels: tuple[float, ...]
) -> Iterator[Mix]:
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

    spoken: Talk
    sound: Wave
    truth: Wave
    """The speech alone."""
    untreated: Treated
    """What comes out if nothing is done."""

    def treated(self, treatment: str, normalizer: Normalizer) -> Treated:
        """What comes out of this option."""
        if treatment == NOTHING:
            return self.untreated
        return normalizer.treat(self.sound, TREATMENTS[treatment])

    def gain(self, treated: Treated) -> float:
        """By how many dB the speech stands out more in the kept audio than it did."""
        before = speech_ratio(self.untreated.kept, self.truth)
        return speech_ratio(treated.kept, self.truth) - before


def measured(
    cases: list[Case], treatment: str, model: Model, normalizer: Normalizer
) -> tuple[float, float, float]:
    """Both word error rates, and the gain in the kept audio."""
    samples: list[Errors] = []
    kept: list[Errors] = []
    gains: list[float] = []
    for case in cases:
        treated = case.treated(treatment, normalizer)
        gains.append(case.gain(treated))
        language, reference = case.spoken.language, case.spoken.reference
        for wave, errors in ((treated.samples, samples), (treated.kept, kept)):
            errors.append(count_errors(reference, model.hear(wave, language), language))
    return Errors.total(samples).percent, Errors.total(kept).percent, float(np.mean(gains))


def rows_of(
    speech: list[Talk], mixes: Iterable[Mix], treatments: tuple[str, ...], model: Model, work: Path
) -> Iterator[Row]:
    """One after the other, each as soon as it is known."""
    normalizer = Normalizer(work)
    nothing = TREATMENTS[NOTHING]
    truths = [normalizer.treat(each.sound, nothing).samples for each in speech]
    for noise, level, sounds in mixes:
        untreated = [normalizer.treat(sound, nothing) for sound in sounds]
        cases = list(map(Case, speech, sounds, truths, untreated))
        for treatment in treatments:
            yield Row(noise, level, treatment, *measured(cases, treatment, model, normalizer))


def table_of(rows: list[Row], model: str, words: int) -> Table:
    """For people."""
    table = Table(title=f"word error rate of {model} in percent, {words} words")
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
@click.option("--beam", type=click.IntRange(1, 10), default=5, show_default=True)
@click.option("--language", default="", help="Only recordings in it, such as en.")
@click.option("--noise", "noises", multiple=True, type=click.Choice(list(NOISES)))
@click.option("--level", "levels", multiple=True, type=float, help="dB; 20, 10, 5, 0 if not given.")
@click.option("--option", "treatments", multiple=True, type=click.Choice(list(TREATMENTS)))
def main(  # noqa: PLR0913 # one for each thing that can be asked for
    folder: Path,
    out: Path,
    model_name: str,
    beam: int,
    language: str,
    noises: tuple[str, ...],
    levels: tuple[float, ...],
    treatments: tuple[str, ...],
) -> None:
    """Measures and writes denoise.json."""
    out.mkdir(parents=True, exist_ok=True)
    with closing(Model(model_name, beam)) as model, TemporaryDirectory() as work:
        speech = read(folder, model, language)
        words = sum(len(each.reference.split()) for each in speech)
        mixes = spoiled(speech, noises or tuple(NOISES), levels or (20, 10, 5, 0))
        rows: list[Row] = []
        for row in rows_of(speech, mixes, treatments or tuple(TREATMENTS), model, Path(work)):
            rows.append(row)
            # As it goes: who stops a long run keeps what was measured.
            result = {"model": model.name, "words": words, "rows": [asdict(row) for row in rows]}
            (out / "denoise.json").write_text(json.dumps(result, indent=1))
        Console(width=110).print(table_of(rows, model.name, words))


if __name__ == "__main__":
    main()
