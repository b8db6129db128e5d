"""Restartable models: killed, crashed, idle, replaced."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest

from mesh.errors import InternalError, UnavailableError
from mesh.reasons import Reason
from tests.support.polling import until
from tests.support.processes import lives
from tests.support.speech import AlwaysSpeech, ScriptedDecoder, engine_with, events_of, recording
from transcriber.decoder import (
    AbandonedError,
    Audio,
    DecodeOptions,
    Decoder,
    Phrase,
    Weights,
)
from transcriber.engine import Event, Phase, Preparing, Request, Segment, Started
from transcriber.model.loading import load_whisper
from transcriber.model.restartable import RestartableDecoder
from transcriber.model.weights import locate
from transcriber.speech.whisper import WhisperDecoder

OPTIONS = DecodeOptions(beam_size=1)
ENGLISH = Request(language="en")
QUIET = np.zeros(16_000, np.int16)
HANG, CRASH, CRASH_ONCE, STUMBLE = 1, 2, 3, 4
"""A window whose first sample is one of these makes the process fail."""


class FaultyDecoder(ScriptedDecoder):
    """Runs in the model process; appends its pid to a file for each decode it begins."""

    def __init__(self, attempts: Path) -> None:
        super().__init__()
        self._attempts = attempts

    def decode(
        self, audio: Audio, language: str, options: DecodeOptions, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        trouble = int(audio[0])
        tried = len(pids_of(self._attempts))
        with self._attempts.open("a") as attempts:
            attempts.write(f"{os.getpid()}\n")
        crashes = trouble == CRASH or (trouble == CRASH_ONCE and not tried)
        if crashes:
            os.kill(os.getpid(), signal.SIGSEGV)  # any thread may get it, a moment later
        if trouble == HANG or crashes:
            threading.Event().wait()
        if trouble == STUMBLE:
            raise RuntimeError("out of words")
        return super().decode(audio, language, options, abandoned)


def pids_of(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def faulty(attempts: Path) -> FaultyDecoder:
    return FaultyDecoder(attempts)


def unloadable() -> ScriptedDecoder:
    raise UnavailableError("no such weights", reason=Reason.MODEL_UNAVAILABLE)


def trouble(kind: int) -> Audio:
    return np.full(16_000, kind, np.int16)


def patient() -> bool:
    return False


@pytest.fixture
def attempts(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def decoder(attempts: Path) -> Iterator[RestartableDecoder]:
    with closing(RestartableDecoder(partial(faulty, attempts))) as made:
        yield made


@contextmanager
def closing(decoder: RestartableDecoder) -> Iterator[RestartableDecoder]:
    try:
        yield decoder
    finally:
        decoder.close()


def is_alive(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return lives(psutil.Process(pid))
    return False


def test_a_restartable_decoder_has_the_properties_of_its_model(decoder: RestartableDecoder) -> None:
    assert (decoder.model, decoder.device, decoder.compute_type) == ("scripted", "cpu", "int8")
    assert decoder.languages == {"en", "pt"}
    assert decoder.detect(QUIET, patient) == {"pt": 0.9}


def test_an_abandoned_window_is_killed_and_the_next_goes_to_another_process(
    decoder: RestartableDecoder, attempts: Path
) -> None:
    with pytest.raises(AbandonedError):
        decoder.decode(trouble(HANG), "en", OPTIONS, lambda: bool(pids_of(attempts)))

    (killed,) = pids_of(attempts)
    assert not is_alive(killed)
    assert decoder.decode(QUIET, "en", OPTIONS, patient)
    assert pids_of(attempts)[1] != killed


def test_windows_that_are_not_abandoned_share_one_process(
    decoder: RestartableDecoder, attempts: Path
) -> None:
    for _ in range(3):
        decoder.decode(QUIET, "en", OPTIONS, patient)

    assert len(set(pids_of(attempts))) == 1


def test_a_window_whose_process_crashed_is_tried_again(
    decoder: RestartableDecoder, attempts: Path
) -> None:
    assert decoder.decode(trouble(CRASH_ONCE), "en", OPTIONS, patient)

    assert len(set(pids_of(attempts))) == 2


def test_a_window_that_crashes_every_process_is_a_retryable_error_and_others_are_decoded(
    decoder: RestartableDecoder, attempts: Path
) -> None:
    with pytest.raises(UnavailableError) as caught:
        decoder.decode(trouble(CRASH), "en", OPTIONS, patient)

    assert caught.value.reason is Reason.STAGE_UNAVAILABLE
    assert caught.value.retryable
    assert len(pids_of(attempts)) == 3
    assert decoder.decode(QUIET, "en", OPTIONS, patient)


def test_a_window_that_crashes_every_process_costs_no_other_window(
    decoder: RestartableDecoder,
) -> None:
    failed: list[UnavailableError] = []

    def crash() -> None:
        try:
            decoder.decode(trouble(CRASH), "en", OPTIONS, patient)
        except UnavailableError as error:
            failed.append(error)

    crashing = threading.Thread(target=crash)
    crashing.start()
    heard = [decoder.decode(QUIET, "en", OPTIONS, patient) for _ in range(20)]
    crashing.join(60)

    assert all(heard)
    assert len(failed) == 1


def test_an_exception_is_reported_and_costs_no_process(
    decoder: RestartableDecoder, attempts: Path
) -> None:
    with pytest.raises(InternalError, match="RuntimeError: out of words"):
        decoder.decode(trouble(STUMBLE), "en", OPTIONS, patient)

    decoder.decode(QUIET, "en", OPTIONS, patient)
    assert len(set(pids_of(attempts))) == 1


def test_a_load_error_keeps_its_type_across_the_process_boundary(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no such weights"):
        RestartableDecoder(unloadable)
    with pytest.raises(UnavailableError, match="'nothing' does not load on cpu as int8") as caught:
        RestartableDecoder(partial(load_whisper, Weights("nothing", tmp_path), "cpu", "int8", 1))
    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


def test_closing_a_decoder_kills_its_process_and_fails_the_current_decode(
    attempts: Path,
) -> None:
    decoder = RestartableDecoder(partial(faulty, attempts))
    failures: list[BaseException] = []

    def hang() -> None:
        try:
            decoder.decode(trouble(HANG), "en", OPTIONS, patient)
        except UnavailableError as error:
            failures.append(error)

    waiting = threading.Thread(target=hang)
    waiting.start()
    asyncio.run(until(lambda: bool(pids_of(attempts))))
    decoder.close()
    waiting.join(60)

    assert len(failures) == 1
    asyncio.run(until(lambda: not any(map(is_alive, pids_of(attempts)))))


async def test_a_cancelled_recording_does_not_affect_another(
    decoder: RestartableDecoder, attempts: Path
) -> None:
    level = HANG
    hanging = np.full(20 * 16_000, level, "<i2").tobytes()
    talking = np.full(20 * 16_000, 16_384, "<i2").tobytes()
    engine = await engine_with(decoder, new_detector=AlwaysSpeech)
    cancelled = asyncio.ensure_future(events_of(engine, hanging, ENGLISH))
    await until(lambda: bool(pids_of(attempts)))
    other = asyncio.ensure_future(events_of(engine, talking, ENGLISH))
    cancelled.cancel()

    found = segments(await other)

    alone = await engine_with(ScriptedDecoder(), new_detector=AlwaysSpeech)
    assert found == segments(await events_of(alone, talking, ENGLISH))
    await until(lambda: not is_alive(pids_of(attempts)[0]))


async def test_whisper_gives_the_same_result_in_a_process_of_its_own(
    base: WhisperDecoder, weights_cache: Path
) -> None:
    weights = locate("base", weights_cache, "cpu")
    with closing(RestartableDecoder(partial(load_whisper, weights, "cpu", "int8", 1))) as apart:
        there = await events_of(await engine_with(apart), recording("sample"))

    here = await events_of(await engine_with(base), recording("sample"))
    assert [plain(one) for one in segments(there)] == [plain(one) for one in segments(here)]
    sure = [one.confidence for one in segments(here)]
    assert [one.confidence for one in segments(there)] == pytest.approx(sure, abs=0.05)


async def test_an_idle_model_is_freed_and_reloaded_for_the_next_window(
    attempts: Path,
) -> None:
    with closing(RestartableDecoder(partial(faulty, attempts), idle_seconds=0.05)) as decoder:
        decoder.decode(QUIET, "en", OPTIONS, patient)
        await until(lambda: not decoder.is_loaded)
        await until(lambda: not is_alive(pids_of(attempts)[0]))

        decoder.decode(QUIET, "en", OPTIONS, patient)

        assert len(set(pids_of(attempts))) == 2


async def test_a_call_to_a_freed_model_reports_that_it_loads(attempts: Path) -> None:
    with closing(RestartableDecoder(partial(faulty, attempts), idle_seconds=0.05)) as decoder:
        engine = await engine_with(decoder)
        await until(lambda: not decoder.is_loaded)

        events = await events_of(engine, b"", ENGLISH)

    assert isinstance(events[1], Started)
    assert events[0] == Preparing(events[1].model, Phase.LOADING)


async def test_windows_are_decoded_at_the_same_time_and_returned_in_order(
    decoder: RestartableDecoder,
) -> None:
    talking = np.full(90 * 16_000, 16_384, "<i2").tobytes()
    decoder.concurrency = 3

    events = await events_of(
        await engine_with(decoder, new_detector=AlwaysSpeech), talking, ENGLISH
    )

    alone = await engine_with(ScriptedDecoder(), new_detector=AlwaysSpeech)
    assert segments(events) == segments(await events_of(alone, talking, ENGLISH))


async def test_two_windows_share_a_process_until_none_of_them_is_wanted(
    decoder: RestartableDecoder, attempts: Path
) -> None:
    def both_decode() -> bool:
        return len(pids_of(attempts)) == 2

    # Each decode hangs until both have begun.
    hanging = [asyncio.to_thread(abandon, decoder, both_decode) for _ in range(2)]
    await asyncio.gather(*hanging)

    assert len(set(pids_of(attempts))) == 1
    await until(lambda: not any(map(is_alive, pids_of(attempts))))
    assert decoder.decode(QUIET, "en", OPTIONS, patient)


def abandon(decoder: Decoder, when: Callable[[], bool]) -> None:
    with suppress(AbandonedError):
        decoder.decode(trouble(HANG), "en", OPTIONS, when)


def plain(one: Segment) -> Segment:
    """Without the confidence, which is compared with a tolerance."""
    return replace(one, confidence=0)


def segments(events: list[Event]) -> list[Segment]:
    return [event for event in events if isinstance(event, Segment)]
