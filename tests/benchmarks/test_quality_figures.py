"""What the quality benchmark makes of what was heard: classes, counts, targets."""

import numpy as np
import pytest

from benchmarks.asr_contestants import OURS
from benchmarks.asr_heard import Heard, Piece
from benchmarks.asr_recordings import RATE
from benchmarks.asr_words import Errors, count_cut_errors, count_errors, right_words
from benchmarks.quality import report
from benchmarks.quality_figures import (
    ALL,
    MUTATED,
    Judged,
    by_class,
    calibration_error,
    compare,
    count_all,
    judge_heard,
    length_class,
    reliability,
    targets,
)
from benchmarks.quality_mutations import PLAIN, Variant

WAYS = (OURS, "sequential", "batched-8")


def _judged(  # noqa: PLR0913 # one for each thing that is judged
    *texts: str,
    clip: str = "a",
    mutation: str = PLAIN,
    language: str = "en",
    seconds: float = 5.0,
    reference: str | None = "the sky is blue",
    heard_language: str = "",
    kept: float = 1.0,
) -> list[Judged]:
    samples = np.zeros(round(seconds * RATE), np.int16)
    variant = Variant(clip, mutation, language, reference, True, samples, kept)
    found = heard_language or ("" if language == "none" else language)
    heard = {
        way: Heard(1.0, [Piece(0.0, 2.0, text, 1.0)] if text else [], seconds, 0, found)
        for way, text in zip(WAYS, texts, strict=False)
    }
    return judge_heard(variant, heard)


def _missed(judged: list[Judged]) -> list[str]:
    figures = targets(by_class(judged), count_all(judged))
    return [figure.name for figure in figures if not figure.met]


@pytest.mark.parametrize(
    ("heard", "errors"),
    [
        ("the sky was blue", Errors(4, substitutions=1)),
        ("the sky blue", Errors(4, deletions=1)),
        ("the sky is so blue", Errors(4, insertions=1)),
        ("", Errors(4, deletions=4)),
    ],
)
def test_kinds_of_errors_are_kept_apart(heard: str, errors: Errors) -> None:
    assert count_errors("the sky is blue", heard, "en") == errors


@pytest.mark.parametrize("language", ["zh", "ja", "th"])
def test_characters_count_where_words_have_no_spaces(language: str) -> None:
    assert count_errors("広州市の空", "広 州市、の海", language) == Errors(5, substitutions=1)


def test_words_of_an_empty_reference_are_insertions() -> None:
    assert count_errors("", "thank you", "en") == Errors(0, insertions=2)


@pytest.mark.parametrize(
    ("heard", "wrong"),
    [
        ("one two three four five six", 0),
        ("one two three four five", 0),
        ("one two three four five six seven", 0),
        ("one two thirty four five six", 1),
        ("one two three four five sick", 1),
        ("one two three four five six thank you", 2),
        ("", 3),
    ],
)
def test_a_cut_text_is_compared_with_the_best_prefix_and_silence_is_not_perfect(
    heard: str, wrong: int
) -> None:
    # Words, not numerals: the English normaliser would make one number of them.
    names = {"one": "ann", "two": "bob", "three": "cid", "four": "dan", "five": "eve", "six": "fay"}
    renamed = " ".join(names.get(word, word) for word in heard.split())

    errors = count_cut_errors("ann bob cid dan eve fay seven guy hal ida", renamed, "en", 0.6)

    assert (errors.wrong, errors.said) == (wrong, 6)


def test_a_prefix_counts_as_a_cut_and_not_as_a_plain_clip() -> None:
    (cut,) = _judged("the sky is", mutation="cut", kept=0.75)
    (plain,) = _judged("the sky is")

    assert cut.errors == Errors(3)
    assert plain.errors == Errors(4, deletions=1)


@pytest.mark.parametrize(
    ("seconds", "name"),
    [(9.99, "< 10 s"), (10, "10-30 s"), (30, "10-30 s"), (30.01, "> 30 s")],
)
def test_lengths_fall_into_three_classes(seconds: float, name: str) -> None:
    assert length_class(seconds) == name


def test_errors_are_summed_by_scope_language_and_length() -> None:
    judged = [
        *_judged("the sky is blue", "the sky", clip="a"),
        *_judged("the sky", "the sky is blue", clip="b", seconds=20),
        *_judged("o céu", "o céu é azul", clip="c", language="pt", reference="o céu é azul"),
        *_judged("der himmel", "der", clip="d", language="de", reference="der himmel"),
        *_judged("the", "the", clip="a", mutation="telephone"),
    ]

    rows = by_class(judged)

    def errors(*place: str) -> tuple[Errors, Errors]:
        found = rows[place[0], place[1], place[2]].errors
        return found[OURS], found["sequential"]

    assert errors(PLAIN, "English", "< 10 s") == (Errors(4), Errors(4, deletions=2))
    assert errors(PLAIN, "English", "10-30 s") == (Errors(4, deletions=2), Errors(4))
    assert errors(PLAIN, "English", ALL) == (Errors(8, deletions=2), Errors(8, deletions=2))
    assert errors(PLAIN, "Portuguese", ALL) == (Errors(4, deletions=2), Errors(4))
    assert errors(PLAIN, "others", ALL) == errors(PLAIN, "de", ALL) == (Errors(2), Errors(2, 0, 1))
    assert errors(PLAIN, ALL, ALL)[0] == Errors(14, deletions=4)
    assert errors("telephone", "English", ALL) == errors(MUTATED, "English", ALL)
    assert errors(MUTATED, ALL, ALL)[0] == Errors(4, deletions=3)
    assert rows[PLAIN, ALL, ALL].variants == 4


def test_clips_without_speech_or_reference_count_in_no_error_rate() -> None:
    judged = [*_judged("a", "a", reference=None), *_judged("a", "", language="none", reference="")]

    assert by_class(judged) == {}
    assert "word errors do not count" in report(judged)[0]


def test_any_class_with_more_errors_than_the_better_bare_way_misses_its_target() -> None:
    good = _judged("the sky is blue", "the sky", "the sky is blue")
    bad = _judged("the sky is", "the sky", "the sky is blue", clip="b", seconds=40)

    assert _missed(good) == []
    (name,) = _missed([*good, *bad])
    assert "English, > 30 s" in name
    (name,) = _missed(_judged("the sky is", "the sky", "the sky is blue", mutation="telephone"))
    assert "all mutations, English, < 10 s" in name


def test_one_mutation_may_be_worse_if_all_together_are_not() -> None:
    worse = _judged("the sky is", "the sky is blue", mutation="telephone")
    better = _judged("the sky is blue", "the sky is", mutation="cut")

    assert _missed([*worse, *better]) == []


def test_a_loop_of_ours_misses_the_target_and_one_of_a_bare_way_does_not() -> None:
    loop = "the the the the the"

    assert _missed(_judged("", loop, reference=None)) == []
    assert _missed(_judged(loop, "", reference=None)) == ["loops of ours"]
    assert _missed(_judged(loop, "", reference=loop)) == []


def test_a_word_of_ours_where_nothing_is_said_misses_the_target() -> None:
    assert _missed(_judged("", "Thank you.", language="none", reference="")) == []
    (name,) = _missed(_judged("[Music]", "", language="none", reference=""))
    assert "without speech" in name


def test_languages_are_wrong_only_where_the_corpus_names_one() -> None:
    def wrong(language: str, heard: str) -> bool:
        return _judged("x", language=language, heard_language=heard)[0].is_language_wrong

    assert wrong("en", "pt")
    assert not wrong("en", "en")
    assert not wrong("jw", "jv")  # the same language, as BCP-47 names it
    assert not wrong("none", "en")


def test_ours_is_compared_with_the_better_bare_way_the_worst_first() -> None:
    judged = [
        *_judged("the sky", "the", "the sky is", clip="worse by one"),
        *_judged("the", "the sky is blue", "", clip="worse by three"),
        *_judged("the sky is", "the", "the sky", clip="better"),
        *_judged("x", "y", clip="no reference", reference=None),
    ]

    compared = compare(judged)

    assert [(one.clip, one.difference) for one in compared] == [
        ("worse by three", 3),
        ("worse by one", 1),
        ("better", -1),
    ]


def test_the_report_names_languages_counted_by_characters_and_the_worst_texts() -> None:
    judged = [
        *_judged("the sky", "the sky is blue", "the sky is blue"),
        *_judged("空", "空", "空", clip="b", language="ja", reference="空"),
        *_judged("the", "the", "the", mutation="cut", kept=0.65),
    ]

    text, figures = report(judged)

    lines = [line.split() for line in text.splitlines()]
    assert ["ja*", "all", "1", "1", *["0.00", "0/0/0"] * 3] in lines
    assert ["English", "<", "10", "s", "1", "4", "50.00", "0/2/0"] in [line[:8] for line in lines]
    assert "characters" in text
    assert "reference: the sky is blue" in text
    assert "ours, 2 wrong: the sky" in text
    assert "MISSED" in text
    assert [figure.met for figure in figures].count(False) == 1


def test_the_words_of_a_text_that_were_said_are_found_across_its_pieces() -> None:
    heard = ["The cat sat", "on a mat today"]

    assert right_words("the cat sat on the mat", heard, "en") == [
        [True, True, True],
        [True, False, True, False],
    ]
    assert right_words("the cat", [], "en") == []
    assert right_words("", ["a word"], "en") == [[False, False]]


def test_confidence_is_compared_with_how_many_words_were_said() -> None:
    said = "the sky is blue and grass grows green"
    variant = Variant("clip", PLAIN, "en", said, True, np.zeros(10 * RATE, np.int16))
    pieces = [
        Piece(0, 1, "the sky is blue", 1.0, 0.95, [("the sky", 0.9), ("is", 0.8), ("blue", 0.7)]),
        Piece(1, 2, "and glass grows grey", 2.0, 0.75, [("and glass", 0.2), ("grows grey", 0.3)]),
    ]
    (judged,) = judge_heard(variant, {OURS: Heard(pieces=pieces)})

    low, high = reliability(judged.confidences)

    assert (low.words, high.words) == (4, 4)
    assert [low.confidence, low.right] == pytest.approx([75, 50])
    assert [high.confidence, high.right] == pytest.approx([95, 100])
    assert calibration_error([low, high]) == pytest.approx(15)
    own = (0.9, True), (0.9, True), (0.8, True), (0.7, True)
    doubtful = (0.2, True), (0.2, False), (0.3, True), (0.3, False)
    assert judged.word_confidences == (*own, *doubtful)
