"""What the quality benchmark measured: errors by class, loops, languages, targets."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.asr_contestants import OURS
from benchmarks.asr_cues import judge_captions
from benchmarks.asr_heard import Heard
from benchmarks.asr_words import Errors, count_cut_errors, count_errors, right_words
from benchmarks.load_figures import Figure
from benchmarks.quality_corpus import NO_SPEECH
from benchmarks.quality_loops import Loop, find_loops, split_words
from benchmarks.quality_mutations import PLAIN, Variant
from mesh.languages import primary

ALL = "all"
MUTATED = "all mutations"
OTHERS = "others"
LANGUAGE_CLASSES = {"en": "English", "pt": "Portuguese"}
SHORT, MIDDLE, LONG = "< 10 s", "10-30 s", "> 30 s"
LENGTH_CLASSES = (SHORT, MIDDLE, LONG)
WORST = 10
BINS = 10


@dataclass(frozen=True, slots=True)
class Judged:
    """One way on one variant."""

    clip: str
    mutation: str
    language: str
    seconds: float
    reference: str | None
    way: str
    text: str
    errors: Errors | None
    """None without a reference. Without speech, every word is an insertion."""
    loops: tuple[Loop, ...]
    heard_language: str
    is_language_wrong: bool
    cues: int
    within_rules: int
    """Cues that keep every rule but the reading speed."""
    readable: int
    confidences: tuple[tuple[float, bool], ...] = ()
    """For each word, the confidence of its segment, and whether the word was said."""
    word_confidences: tuple[tuple[float, bool], ...] = ()
    """The same with the confidence of the word itself."""

    @property
    def variant(self) -> tuple[str, str]:
        """The clip and its mutation."""
        return self.clip, self.mutation

    @property
    def has_speech(self) -> bool:
        """False if the corpus says that nothing is said."""
        return self.reference != ""


def judge_heard(variant: Variant, heard: Mapping[str, Heard]) -> list[Judged]:
    """What each way made of a variant."""
    return [_judge(variant, way, one) for way, one in heard.items()]


def _judge(variant: Variant, way: str, heard: Heard) -> Judged:
    language = "" if variant.language == NO_SPEECH else variant.language
    verdict = judge_captions(heard, language, ours=way == OURS)
    detected = primary(heard.language) if heard.language else ""
    return Judged(
        clip=variant.clip,
        mutation=variant.mutation,
        language=variant.language,
        seconds=variant.seconds,
        reference=variant.reference,
        way=way,
        text=heard.text,
        errors=_errors(variant, heard.text),
        loops=tuple(find_loops(heard.text, variant.reference)),
        heard_language=detected,
        is_language_wrong=bool(language) and variant.is_language_known and detected != language,
        cues=verdict.cues,
        within_rules=verdict.within_hard_rules,
        readable=verdict.within_reading_speed,
        confidences=tuple(_confidences(variant, _segments(heard))),
        word_confidences=tuple(_confidences(variant, _words(heard))),
    )


def _segments(heard: Heard) -> list[tuple[str, float]]:
    return [(one.text, one.confidence) for one in heard.pieces if one.confidence is not None]


def _words(heard: Heard) -> list[tuple[str, float]]:
    return [word for piece in heard.pieces for word in piece.words]


def _confidences(
    variant: Variant, texts: Sequence[tuple[str, float]]
) -> Iterator[tuple[float, bool]]:
    """The confidence of the text a word stands in, and whether the word was said."""
    # Where a recording is cut, the words said are not known.
    if variant.reference is None or variant.kept < 1:
        return
    found = right_words(variant.reference, [text for text, _ in texts], variant.language)
    for (_, confidence), words in zip(texts, found, strict=True):
        yield from ((confidence, right) for right in words)


def _errors(variant: Variant, text: str) -> Errors | None:
    if variant.reference is None:
        return None
    if not variant.reference:
        return Errors(0, insertions=len(split_words(text)))
    if variant.kept < 1:
        return count_cut_errors(variant.reference, text, variant.language, variant.kept)
    return count_errors(variant.reference, text, variant.language)


def language_class(language: str) -> str:
    """The class a language is counted in."""
    return LANGUAGE_CLASSES.get(language, OTHERS)


def length_class(seconds: float) -> str:
    """The class a length is counted in."""
    if seconds < 10:
        return SHORT
    return MIDDLE if seconds <= 30 else LONG


@dataclass(frozen=True, slots=True)
class Row:
    """Errors of every way over the variants of one class."""

    scope: str
    """Plain, a mutation, or all mutations."""
    language: str
    """A class, a language, or all."""
    length: str
    """A class, or all."""
    variants: int
    errors: Mapping[str, Errors]

    @property
    def bare(self) -> float | None:
        """The word error rate of the better bare way."""
        rates = [errors.percent for way, errors in self.errors.items() if way != OURS]
        return min(rates, default=None)


def by_class(judged: Iterable[Judged]) -> dict[tuple[str, str, str], Row]:
    """Rows by scope, language and length; only variants with speech and a reference count."""
    found: dict[tuple[str, str, str], dict[str, list[Errors]]] = defaultdict(dict)
    for one in judged:
        if one.errors is not None and one.errors.said:
            for place in _places(one):
                found[place].setdefault(one.way, []).append(one.errors)
    return {
        place: Row(
            *place,
            variants=max(map(len, ways.values())),
            errors={way: Errors.total(errors) for way, errors in ways.items()},
        )
        for place, ways in found.items()
    }


def _places(one: Judged) -> Iterator[tuple[str, str, str]]:
    for scope in (PLAIN,) if one.mutation == PLAIN else (one.mutation, MUTATED):
        for language in (ALL, language_class(one.language), one.language):
            for length in (ALL, length_class(one.seconds)):
                yield scope, language, length


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of one way over plain clips or over all mutations."""

    scope: str
    way: str
    variants: int
    loops: int
    """Variants with a loop."""
    wrong_languages: int
    words_without_speech: int
    cues: int
    within_rules: int
    readable: int


def count_all(judged: Sequence[Judged]) -> list[Counts]:
    """One for each way, over plain clips and over mutations."""
    groups: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for one in judged:
        groups[PLAIN if one.mutation == PLAIN else MUTATED, one.way].append(one)
    return [_count(scope, way, ones) for (scope, way), ones in groups.items()]


def _count(scope: str, way: str, ones: Sequence[Judged]) -> Counts:
    return Counts(
        scope=scope,
        way=way,
        variants=len(ones),
        loops=sum(bool(one.loops) for one in ones),
        wrong_languages=sum(one.is_language_wrong for one in ones),
        words_without_speech=sum(
            one.errors.insertions for one in ones if one.errors and not one.has_speech
        ),
        cues=sum(one.cues for one in ones),
        within_rules=sum(one.within_rules for one in ones),
        readable=sum(one.readable for one in ones),
    )


@dataclass(frozen=True, slots=True)
class Bin:
    """Words whose confidence lies between two values."""

    low: float
    high: float
    words: int
    confidence: float
    """Their mean, in percent."""
    right: float
    """Percent of them that were said."""


def reliability(confidences: Iterable[tuple[float, bool]]) -> list[Bin]:
    """How often words of each confidence are right."""
    groups: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for confidence, right in confidences:
        groups[min(int(confidence * BINS), BINS - 1)].append((confidence, right))
    return [
        Bin(
            number / BINS,
            (number + 1) / BINS,
            len(words),
            100 * fmean(confidence for confidence, _ in words),
            100 * fmean(right for _, right in words),
        )
        for number, words in sorted(groups.items())
    ]


def calibration_error(bins: Sequence[Bin]) -> float:
    """The mean distance between confidence and correctness of a word, in percent points."""
    words = sum(one.words for one in bins)
    return sum(one.words * abs(one.confidence - one.right) for one in bins) / words


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours beside the better bare way on one variant."""

    clip: str
    mutation: str
    reference: str
    difference: int
    """Errors of ours beyond those of the better bare way; negative if ours is better."""
    texts: Mapping[str, str]
    wrong: Mapping[str, int]


def compare(judged: Iterable[Judged]) -> list[Comparison]:
    """Every variant with a reference, those where ours is worst first."""
    groups: dict[tuple[str, str], dict[str, Judged]] = defaultdict(dict)
    for one in judged:
        if one.errors is not None:
            groups[one.variant][one.way] = one
    found = [_comparison(ways) for ways in groups.values() if OURS in ways and len(ways) > 1]
    return sorted(found, key=lambda each: (-each.difference, each.clip, each.mutation))


def _comparison(ways: Mapping[str, Judged]) -> Comparison:
    own = ways[OURS]
    wrong = {way: one.errors.wrong for way, one in ways.items() if one.errors is not None}
    bare = min(count for way, count in wrong.items() if way != OURS)
    texts = {way: one.text for way, one in ways.items()}
    reference = own.reference or ""
    return Comparison(own.clip, own.mutation, reference, wrong[OURS] - bare, texts, wrong)


def targets(rows: Mapping[tuple[str, str, str], Row], counts: Iterable[Counts]) -> list[Figure]:
    """In every class at least as good as the better bare way; no loops, no text without speech."""
    figures = []
    for scope in (PLAIN, MUTATED):
        for language in (*LANGUAGE_CLASSES.values(), OTHERS):
            for length in LENGTH_CLASSES:
                row = rows.get((scope, language, length))
                if row is not None and row.bare is not None:
                    name = f"{scope}, {language}, {length}: our WER, the better bare way's"
                    figures.append(Figure(name, row.errors[OURS].percent, "%", row.bare, "less"))
    own = [one for one in counts if one.way == OURS]
    silent = sum(one.words_without_speech for one in own)
    return [
        *figures,
        Figure("loops of ours", sum(one.loops for one in own), "", 0, "less"),
        Figure("words of ours without speech", silent, "", 0, "less"),
    ]
