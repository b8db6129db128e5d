"""A model in a process of its own: killed, crashed, replaced."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import psutil
import pytest

from mesh.errors import InternalError, UnavailableError
from mesh.reasons import Reason
from tests.polling import until
from tests.processes import lives
from tests.transcriber.support import ScriptedDecoder, Speaking, engine_with, events_of, recording
from transcriber.decoder import Decoder, How, Phrase
from transcriber.engine import Event, Phase, Preparing, Ready, Request, Spoken
from transcriber.killable import KillableDecoder
from transcriber.nursery import AbandonedError
from transcriber.pool import Pool
from transcriber.vad import Audio
from transcriber.weights import Weights, locate
from transcriber.whisper import WhisperDecoder, load_whisper

HOW = How(beam_size=1)
DecoderT = TypeVar("DecoderT", KillableDecoder, Pool)
ENGLISH = Request(language="en")
QUIET = np.zeros(16_000, np.float32)
HANG, CRASH, CRASH_ONCE, STUMBLE = 0.1, 0.2, 0.3, 0.4
"""A window whose first sample is one of these is trouble."""


class Troubled(ScriptedDecoder):
    """Runs in the child; leaves a note of each decode it begins, with the pid that did."""

    def __init__(self, notes: Path) -> None:
        super().__init__()
        self._notes = notes

    def decode(
        self, audio: Audio, language: str, how: How, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        trouble = round(float(audio[0]), 1)
        tried = len(notes_of(self._notes))
        with self._notes.open("a") as notes:
            notes.write(f"{os.getpid()}\n")
        if trouble == HANG:
            threading.Event().wait()
        if trouble == CRASH or (trouble == CRASH_ONCE and not tried):
            os.kill(os.getpid(), signal.SIGSEGV)
        if trouble == STUMBLE:
            raise RuntimeError("out of words")
        return super().decode(audio, language, how, abandoned)


def notes_of(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def troubled(notes: Path) -> Troubled:
    return Troubled(notes)


def unloadable() -> ScriptedDecoder:
    raise UnavailableError("no such weights", reason=Reason.MODEL_UNAVAILABLE)


def trouble(kind: float) -> Audio:
    return np.full(16_000, kind, np.float32)


def patient() -> bool:
    return False


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


@pytest.fixture
def decoder(notes: Path) -> Iterator[KillableDecoder]:
    with closing(KillableDecoder(partial(troubled, notes))) as made:
        yield made


@contextmanager
def closing(decoder: DecoderT) -> Iterator[DecoderT]:
    try:
        yield decoder
    finally:
        decoder.close()


def is_alive(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return lives(psutil.Process(pid))
    return False


def test_it_says_of_itself_what_the_model_says(decoder: KillableDecoder) -> None:
    assert (decoder.model, decoder.device, decoder.compute_type) == ("scripted", "cpu", "int8")
    assert decoder.languages == {"en", "pt"}
    assert decoder.detect(QUIET, patient) == ("pt", 0.9)


def test_an_abandoned_window_is_killed_and_the_next_goes_to_another_process(
    decoder: KillableDecoder, notes: Path
) -> None:
    with pytest.raises(AbandonedError):
        decoder.decode(trouble(HANG), "en", HOW, lambda: bool(notes_of(notes)))

    (killed,) = notes_of(notes)
    assert not is_alive(killed)
    assert decoder.decode(QUIET, "en", HOW, patient)
    assert notes_of(notes)[1] != killed


def test_windows_nobody_gave_up_stay_with_one_process(
    decoder: KillableDecoder, notes: Path
) -> None:
    for _ in range(3):
        decoder.decode(QUIET, "en", HOW, patient)

    assert len(set(notes_of(notes))) == 1


def test_a_window_whose_process_crashed_is_tried_once_more(
    decoder: KillableDecoder, notes: Path
) -> None:
    assert decoder.decode(trouble(CRASH_ONCE), "en", HOW, patient)

    assert len(set(notes_of(notes))) == 2


def test_a_window_that_crashes_every_process_is_a_retryable_error_and_others_are_heard(
    decoder: KillableDecoder, notes: Path
) -> None:
    with pytest.raises(UnavailableError) as caught:
        decoder.decode(trouble(CRASH), "en", HOW, patient)

    assert caught.value.reason is Reason.STAGE_UNAVAILABLE
    assert caught.value.retryable
    assert len(notes_of(notes)) == 2
    assert decoder.decode(QUIET, "en", HOW, patient)


def test_an_exception_is_told_and_costs_no_process(decoder: KillableDecoder, notes: Path) -> None:
    with pytest.raises(InternalError, match="RuntimeError: out of words"):
        decoder.decode(trouble(STUMBLE), "en", HOW, patient)

    decoder.decode(QUIET, "en", HOW, patient)
    assert len(set(notes_of(notes))) == 1


def test_a_model_that_does_not_load_is_the_error_it_always_was(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no such weights"):
        KillableDecoder(unloadable)
    with pytest.raises(UnavailableError, match="'nothing' does not load on cpu as int8") as caught:
        KillableDecoder(partial(load_whisper, Weights("nothing", tmp_path), "cpu", "int8", 1))
    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


def test_a_closed_decoder_leaves_no_process_and_breaks_off_what_was_under_way(
    notes: Path,
) -> None:
    decoder = KillableDecoder(partial(troubled, notes))
    failures: list[BaseException] = []

    def hang() -> None:
        try:
            decoder.decode(trouble(HANG), "en", HOW, patient)
        except UnavailableError as error:
            failures.append(error)

    waiting = threading.Thread(target=hang)
    waiting.start()
    asyncio.run(until(lambda: bool(notes_of(notes))))
    decoder.close()
    waiting.join(10)

    assert len(failures) == 1
    assert not any(map(is_alive, notes_of(notes)))


async def test_a_cancelled_recording_costs_another_nothing(
    decoder: KillableDecoder, notes: Path
) -> None:
    level = round(HANG * 32_768)
    hanging = np.full(20 * 16_000, level, "<i2").tobytes()
    talking = np.full(20 * 16_000, 16_384, "<i2").tobytes()
    engine = await engine_with(decoder, new_detector=Speaking)
    cancelled = asyncio.ensure_future(events_of(engine, hanging, ENGLISH))
    await until(lambda: bool(notes_of(notes)))
    other = asyncio.ensure_future(events_of(engine, talking, ENGLISH))
    cancelled.cancel()

    heard = spoken(await other)

    alone = await engine_with(ScriptedDecoder(), new_detector=Speaking)
    assert heard == spoken(await events_of(alone, talking, ENGLISH))
    assert not is_alive(notes_of(notes)[0])


async def test_whisper_hears_the_same_in_a_process_of_its_own(
    base: WhisperDecoder, weights_cache: Path
) -> None:
    weights = locate("base", weights_cache, "cpu")
    with closing(KillableDecoder(partial(load_whisper, weights, "cpu", "int8", 1))) as apart:
        there = await events_of(await engine_with(apart), recording("sample"))

    here = await events_of(await engine_with(base), recording("sample"))
    assert [plain(one) for one in spoken(there)] == [plain(one) for one in spoken(here)]
    sure = [one.confidence for one in spoken(here)]
    assert [one.confidence for one in spoken(there)] == pytest.approx(sure, abs=0.05)


async def test_a_model_nobody_needs_is_freed_and_comes_back_for_the_next_window(
    notes: Path,
) -> None:
    with closing(KillableDecoder(partial(troubled, notes), idle_seconds=0.05)) as decoder:
        decoder.decode(QUIET, "en", HOW, patient)
        await until(lambda: not decoder.is_loaded)
        assert not is_alive(notes_of(notes)[0])

        decoder.decode(QUIET, "en", HOW, patient)

        assert len(set(notes_of(notes))) == 2


async def test_whoever_comes_to_a_freed_model_is_told_that_it_loads(notes: Path) -> None:
    with closing(Pool(partial(troubled, notes), workers=1, idle_seconds=0.05)) as pool:
        engine = await engine_with(pool)
        await until(lambda: not pool.is_loaded)

        events = await events_of(engine, b"", ENGLISH)

    assert isinstance(events[1], Ready)
    assert events[0] == Preparing(events[1].model, Phase.LOADING)


async def test_a_pool_decodes_windows_side_by_side_and_gives_them_back_in_order(
    notes: Path,
) -> None:
    talking = np.full(90 * 16_000, 16_384, "<i2").tobytes()
    with closing(Pool(partial(troubled, notes), workers=2)) as pool:
        heard = await events_of(await engine_with(pool, new_detector=Speaking), talking, ENGLISH)

    alone = await engine_with(ScriptedDecoder(), new_detector=Speaking)
    assert spoken(heard) == spoken(await events_of(alone, talking, ENGLISH))


def test_in_a_pool_two_windows_are_under_way_at_once(notes: Path) -> None:
    with closing(Pool(partial(troubled, notes), workers=2)) as pool:
        threads = [
            threading.Thread(target=abandon, args=(pool, lambda: len(notes_of(notes)) == 2))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

        assert len(set(notes_of(notes))) == 2
        assert not any(map(is_alive, notes_of(notes)))
        assert pool.decode(QUIET, "en", HOW, patient)


def abandon(decoder: Decoder, when: Callable[[], bool]) -> None:
    with suppress(AbandonedError):
        decoder.decode(trouble(HANG), "en", HOW, when)


def plain(one: Spoken) -> Spoken:
    """Without what depends on how many threads a library adds up in."""
    return replace(one, confidence=0)


def spoken(events: list[Event]) -> list[Spoken]:
    return [event for event in events if isinstance(event, Spoken)]
