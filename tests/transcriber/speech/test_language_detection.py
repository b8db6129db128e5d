"""Detection of the language: among candidates, from more speech where it is unsure."""

from collections.abc import Callable

import numpy as np
import pytest

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from tests.support.speech import AlwaysSpeech, ScriptedDecoder, engine_with, events_of, recording
from transcriber.decoder import Audio
from transcriber.engine import Finished, Request, Segment
from transcriber.speech.language_detection import LanguageDetector, most_probable
from transcriber.speech.listener import AudioWindow
from transcriber.speech.whisper import WhisperDecoder
from transcriber.speech.windows import RATE, Stretch, Window

KNOWN = frozenset({"de", "en", "es", "gl", "pt"})
DOUBTFUL = {"gl": 0.4, "pt": 0.3, "es": 0.2, "en": 0.1}
NO_CANDIDATES: frozenset[str] = frozenset()


class ListedDecoder(ScriptedDecoder):
    """Returns one list of probabilities after the other; the last one again and again."""

    def __init__(self, *found: dict[str, float]) -> None:
        super().__init__(KNOWN)
        self._found = list(found)
        self.heard: list[int] = []
        """Seconds of speech of each detection."""

    def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> dict[str, float]:
        self.heard.append(len(audio) // RATE)
        return self._found.pop(0) if len(self._found) > 1 else self._found[0]


def window(seconds: int) -> AudioWindow:
    samples = seconds * RATE
    whole = (Stretch(0, samples),)
    span = Window(whole, voiced=whole)
    return AudioWindow(span, bytes(2 * samples))


def patient() -> bool:
    return False


def talk(seconds: int) -> bytes:
    return np.full(seconds * RATE, 16_384, "<i2").tobytes()


def languages(events: list[object]) -> set[str]:
    return {event.language for event in events if isinstance(event, Segment)}


def test_without_candidates_the_most_probable_of_all_languages_is_taken_as_it_is() -> None:
    assert most_probable(DOUBTFUL, NO_CANDIDATES) == ("gl", 0.4)


def test_of_the_candidates_the_most_probable_is_taken_with_its_share_among_them() -> None:
    language, probability = most_probable(DOUBTFUL, frozenset({"pt", "es", "en"}))

    assert language == "pt"
    assert probability == pytest.approx(0.5)


def test_a_single_candidate_is_certain() -> None:
    assert most_probable(DOUBTFUL, frozenset({"en"})) == ("en", 1.0)


def test_candidates_the_model_gives_no_probability_are_equal() -> None:
    assert most_probable(DOUBTFUL, frozenset({"de", "af"})) == ("af", 0.5)


def test_a_probable_language_is_final_after_one_window() -> None:
    decoder = ListedDecoder({"pt": 0.8, "es": 0.2})
    detector = LanguageDetector(None, KNOWN)

    detector.observe(decoder, window(3), patient)

    assert (detector.is_decided, detector.language, detector.probability) == (True, "pt", 0.8)


def test_a_doubtful_language_waits_for_30_seconds_of_speech_each_time_on_all_of_it() -> None:
    decoder = ListedDecoder(DOUBTFUL, DOUBTFUL, {"pt": 0.6, "gl": 0.3})
    detector = LanguageDetector(None, KNOWN)
    decided = []
    for seconds in (8, 15, 25):
        detector.observe(decoder, window(seconds), patient)
        decided.append(detector.is_decided)

    assert decided == [False, False, True]
    assert decoder.heard == [8, 23, 30]
    assert (detector.language, detector.probability) == ("pt", 0.6)


def test_candidates_that_exclude_the_doubt_are_final_at_once() -> None:
    detector = LanguageDetector(None, KNOWN, frozenset({"pt", "de"}))

    detector.observe(ListedDecoder(DOUBTFUL), window(3), patient)

    assert (detector.is_decided, detector.language, detector.probability) == (True, "pt", 1.0)


async def test_captions_and_summary_are_in_the_most_probable_candidate() -> None:
    engine = await engine_with(ListedDecoder(DOUBTFUL), new_detector=AlwaysSpeech)

    events = await events_of(engine, talk(40), Request(languages=("pt-BR", "es", "pt")))

    assert languages(list(events)) == {"pt"}
    assert isinstance(events[-1], Finished)
    assert events[-1].language == "pt"
    assert events[-1].language_probability == pytest.approx(0.6)


async def test_a_recording_shorter_than_the_wait_gets_the_best_guess_at_its_end() -> None:
    decoder = ListedDecoder(DOUBTFUL)
    engine = await engine_with(decoder, new_detector=AlwaysSpeech)

    events = await events_of(engine, talk(5))

    assert decoder.heard == [5]
    assert isinstance(events[-1], Finished)
    assert (events[-1].language, events[-1].language_probability) == ("gl", 0.4)


async def test_in_mixed_languages_each_window_gets_one_of_the_candidates() -> None:
    decoder = ListedDecoder({"gl": 0.6, "pt": 0.4}, {"gl": 0.6, "en": 0.4}, {"de": 1.0})
    engine = await engine_with(decoder, new_detector=AlwaysSpeech)

    request = Request(languages=("pt", "en"), mixed_languages=True)
    events = await events_of(engine, talk(25), request)

    assert languages(list(events)) == {"pt", "en"}


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Request(languages=("pt", "ja")), Reason.LANGUAGE_UNSUPPORTED),
        (Request(languages=("pt", "ja"), mixed_languages=True), Reason.LANGUAGE_UNSUPPORTED),
        (Request(languages=("pt", "nonsense")), Reason.LANGUAGE_UNKNOWN),
        (Request("pt", languages=("pt", "en")), Reason.REQUEST_INVALID),
    ],
    ids=["unsupported", "unsupported in mixed languages", "no language", "with a language"],
)
async def test_candidates_that_cannot_be_honoured_are_refused(
    request_: Request, reason: Reason
) -> None:
    engine = await engine_with(ListedDecoder(DOUBTFUL))

    with pytest.raises(InvalidRequestError) as caught:
        await events_of(engine, b"", request_)
    assert caught.value.reason is reason


def test_whisper_gives_every_language_it_knows_a_probability(base: WhisperDecoder) -> None:
    audio = np.frombuffer(recording("sample"), "<i2")

    found = base.detect(audio, patient)

    assert set(found) == base.languages
    assert sum(found.values()) == pytest.approx(1, abs=1e-3)
    assert max(found, key=lambda code: found[code]) == "en"
