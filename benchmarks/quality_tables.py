"""The result of the quality benchmark as text."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.asr_figures import aligned
from benchmarks.asr_words import BY_CHARACTER, Errors
from benchmarks.quality_figures import (
    ALL,
    LANGUAGE_CLASSES,
    LENGTH_CLASSES,
    MUTATED,
    OTHERS,
    WORST,
    Bin,
    Comparison,
    Counts,
    Row,
    calibration_error,
)
from benchmarks.quality_mutations import PLAIN

Rows = Mapping[tuple[str, str, str], Row]
CLASSES = (*LANGUAGE_CLASSES.values(), OTHERS)


def class_table(rows: Rows, scope: str, ways: Sequence[str]) -> str:
    """Language classes by length classes, then each language, then all."""
    head = ["language", "length", "variants", "words"]
    for way in ways:
        head += [f"{way} WER %", "sub/del/ins"]
    codes = sorted({key[1] for key in rows if key[0] == scope} - {*CLASSES, ALL})
    keys = [(name, length) for name in CLASSES for length in (*LENGTH_CLASSES, ALL)]
    keys += [
        *((code, ALL) for code in codes),
        *((ALL, length) for length in (*LENGTH_CLASSES, ALL)),
    ]
    lines = [
        _class_cells(rows[scope, language, length], ways)
        for language, length in keys
        if (scope, language, length) in rows
    ]
    return aligned([head, *lines], names=2)


def _class_cells(row: Row, ways: Sequence[str]) -> list[str]:
    # "others" and "all" hold words and characters together.
    mark = "*" if row.language in BY_CHARACTER else ""
    said = max(errors.said for errors in row.errors.values())
    cells = [f"{row.language}{mark}", row.length, str(row.variants), str(said)]
    for way in ways:
        cells += [_percent(row.errors.get(way)), _parts(row.errors.get(way))]
    return cells


def reliability_table(bins: Sequence[Bin]) -> str:
    """One line for each range of confidence: what was claimed, and what was right."""
    head = ["confidence", "words", "claimed %", "right %", ""]
    lines = [
        [
            f"{one.low:.1f}-{one.high:.1f}",
            str(one.words),
            f"{one.confidence:.1f}",
            f"{one.right:.1f}",
            "#" * round(one.right / 5),
        ]
        for one in bins
    ]
    error = f"mean distance {calibration_error(bins):.1f} points"
    return f"{aligned([head, *lines], names=1)}\n{error}"


def mutation_table(rows: Rows, ways: Sequence[str]) -> str:
    """One line for each mutation: the word error rate of each way by language class."""
    present = {language for _, language, _ in rows}
    named = [(name, way) for name in (*CLASSES, ALL) if name in present for way in ways]
    head = ["mutation", *(f"{name} {way}" for name, way in named)]
    scopes = dict.fromkeys(scope for scope, _, _ in rows)
    ordered = [*(scope for scope in scopes if scope != MUTATED), MUTATED]
    lines = [
        [scope, *(_percent(_errors(rows, scope, name, way)) for name, way in named)]
        for scope in ordered
        if scope in scopes
    ]
    return aligned([head, *lines], names=1)


def _errors(rows: Rows, scope: str, name: str, way: str) -> Errors | None:
    row = rows.get((scope, name, ALL))
    return row.errors.get(way) if row else None


def _percent(errors: Errors | None) -> str:
    return "-" if errors is None else f"{errors.percent:.2f}"


def _parts(errors: Errors | None) -> str:
    if errors is None:
        return "-"
    return f"{errors.substitutions}/{errors.deletions}/{errors.insertions}"


def counts_table(counts: Iterable[Counts]) -> str:
    """Loops, languages, text without speech and cues of each way."""
    head = [
        "scope",
        "way",
        "variants",
        "with loops",
        "wrong language",
        "words without speech",
        "cues",
        "in rules %",
        "readable %",
    ]
    lines = [
        [
            one.scope,
            one.way,
            str(one.variants),
            str(one.loops),
            str(one.wrong_languages),
            str(one.words_without_speech),
            str(one.cues),
            _share(one.within_rules, one.cues),
            _share(one.readable, one.cues),
        ]
        for one in counts
    ]
    return aligned([head, *lines], names=2)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "-"


def comparison_lines(compared: Sequence[Comparison]) -> str:
    """How often ours is better or worse than the better bare way, and the worst ten."""
    lines = []
    for scope, ones in (
        (PLAIN, [one for one in compared if one.mutation == PLAIN]),
        (MUTATED, [one for one in compared if one.mutation != PLAIN]),
    ):
        counted = Counter((one.difference > 0) - (one.difference < 0) for one in ones)
        lines.append(
            f"{scope}: ours better than the better bare way on {counted[-1]}, "
            f"equal on {counted[0]}, worse on {counted[1]}"
        )
    for one in compared[:WORST]:
        if one.difference > 0:
            lines.append(f"{one.clip}, {one.mutation}: {one.difference} errors more")
            lines.append(f"  reference: {one.reference}")
            lines += [f"  {way}, {one.wrong[way]} wrong: {one.texts[way]}" for way in one.texts]
    return "\n".join(lines)
