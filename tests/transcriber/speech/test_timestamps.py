"""Times of a window's phrases in the recording."""

from datetime import timedelta

from transcriber.decoder import Phrase, Word
from transcriber.speech.timestamps import joints, place
from transcriber.speech.windows import RATE, Stretch, Window


def seconds(moment: timedelta) -> float:
    return moment.total_seconds()


PAUSED = Window(
    (Stretch(10 * RATE, 13 * RATE), Stretch(20 * RATE, 24 * RATE)),
    voiced=(Stretch(10 * RATE, 13 * RATE), Stretch(20 * RATE, 24 * RATE)),
)
"""Three seconds, a cut pause of seven, four seconds."""


def test_times_after_a_cut_pause_do_not_drift() -> None:
    before, after = place([Phrase(0, 3, "One.", 0.9), Phrase(3, 6.5, "Two.", 0.9)], PAUSED, "en")

    assert (seconds(before.start), seconds(before.end)) == (10, 13)
    assert (seconds(after.start), seconds(after.end)) == (20, 23.5)


def test_a_phrase_across_a_long_pause_is_split_between_its_words() -> None:
    words = (Word(0.5, 2.8, " one", 0.8), Word(3.1, 4, " two", 0.6), Word(4, 5, " three.", 0.4))

    before, after = place([Phrase(0, 6, " one two three.", 0.6, words)], PAUSED, "en")

    assert (before.text, seconds(before.start), seconds(before.end)) == ("one", 10, 13)
    assert (after.text, seconds(after.start), seconds(after.end)) == ("two three.", 20, 23)
    assert [word.text for word in after.words] == ["two", "three."]
    assert (round(before.confidence, 6), round(after.confidence, 6)) == (0.8, 0.5)


def test_a_phrase_with_all_its_words_on_one_side_of_a_pause_stays_on_that_side() -> None:
    words = (Word(3.2, 4, " two", 0.6),)

    (piece,) = place([Phrase(2.9, 6, " two", 0.6, words)], PAUSED, "en")

    assert (piece.text, seconds(piece.start)) == ("two", 20)


def test_a_slightly_shortened_pause_splits_nothing() -> None:
    stretches = (Stretch(0, RATE), Stretch(RATE + RATE // 2, 2 * RATE))
    short = Window(stretches, voiced=stretches)

    assert joints(short) == ()


def test_text_after_the_last_speech_is_dropped() -> None:
    window = Window(
        (Stretch(0, 3 * RATE), Stretch(5 * RATE, 8 * RATE)),
        voiced=(Stretch(0, 3 * RATE), Stretch(5 * RATE, 7 * RATE)),
    )
    phrases = [Phrase(0, 5, "Words.", 0.9), Phrase(5.2, 6, "Thanks for watching!", 0.9)]

    assert [piece.text for piece in place(phrases, window, "en")] == ["Words."]


def test_text_without_letters_or_digits_is_dropped() -> None:
    phrases = [Phrase(0, 1, " ...", 0.9), Phrase(1, 2, " ♪", 0.9), Phrase(2, 3, " Ja.", 0.9)]

    assert [piece.text for piece in place(phrases, PAUSED, "en")] == ["Ja."]
