"""Text in another language, by real translation models whose weights were written by hand."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import grpc
import numpy as np
import pytest

from mesh.addresses import free_ports
from mesh.errors import MeshError, UnavailableError, UnsupportedError
from mesh.reasons import Reason
from mesh.status import reason_of
from tests.transcriber.support import (
    ScriptedDecoder,
    Speaking,
    audio_frames,
    engine_with,
    events_of,
    recording,
    start,
    until,
)
from tests.transcriber.test_process import _until_serving, process
from tests.transcriber.tiny_translation import M2M100, NLLB, OPUS_TO_GERMAN, Kind, write_model
from transcriber.ctranslate import CTranslator, load_translator
from transcriber.decoder import Phrase
from transcriber.engine import Heard, Ready, Request, Spoken, TranslationFacts
from transcriber.killable import KillableTranslator
from transcriber.naming import read_naming
from transcriber.nursery import AbandonedError
from transcriber.translating import Translate
from transcriber.vad import Audio
from ytcaption.v1 import transcriber_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2_grpc as rpc

ENGLISH = "The weather is lovely this morning."
GERMAN = "Das Wetter ist herrlich diesen Morgen."
FRENCH = "Le temps est magnifique ce matin."
TALK = np.full(5 * 16_000, 16_384, "<i2").tobytes()
TO_GERMAN = Translate((ENGLISH,), "en", "de", 5)


def patient() -> bool:
    return False


class Talker(ScriptedDecoder):
    """Hears the same sentence in every window, in the language it is told."""

    def __init__(self, languages: frozenset[str] = frozenset({"en", "de", "fr", "pt"})) -> None:
        super().__init__(languages)
        self.spoken = "en"

    def detect(self, audio: Audio, abandoned: object) -> tuple[str, float]:
        return self.spoken, 0.9

    def decode(self, audio: Audio, language: str, how: object, abandoned: object) -> list[Phrase]:
        if getattr(how, "task") == "translate":  # noqa: B009 # of any decoder
            return [Phrase(0, 2, "by the speech model", 0.5)]
        return [Phrase(0, 1, " The weather", 0.5), Phrase(1, 2, " is lovely", 0.5)]


@pytest.fixture(scope="module")
def nllb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny-nllb", NLLB)


@pytest.fixture(scope="module")
def opus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny-opus", OPUS_TO_GERMAN)


@pytest.fixture
def translator(nllb: Path) -> CTranslator:
    return CTranslator(nllb, "", "cpu", "int8", 1)


@pytest.mark.parametrize("vocabulary", ["sentencepiece", "tokenizer.json"])
@pytest.mark.parametrize(
    ("kind", "languages"), [(NLLB, ""), (M2M100, ""), (OPUS_TO_GERMAN, "en>de")]
)
def test_every_kind_of_model_is_told_its_languages_the_way_it_knows(
    tmp_path: Path, kind: Kind, languages: str, vocabulary: str
) -> None:
    folder = write_model(tmp_path / "model", kind, vocabulary)
    translator = CTranslator(folder, languages, "cpu", "int8", 1)

    assert translator.translate(TO_GERMAN, patient) == [GERMAN]
    if kind.names:
        assert translator.sources == translator.targets == {"en", "de", "fr", "pt"}
        back = Translate((GERMAN, ENGLISH), "de", "fr", 1)
        assert translator.translate(back, patient) == [FRENCH, FRENCH]
    else:
        assert translator.sources == {"en"}
        assert translator.targets == {"de"}


def test_opus_models_with_several_targets_are_asked_by_their_tokens() -> None:
    vocabulary = frozenset({"▁a", ">>deu<<", ">>fra<<", ">>pt_br<<", ">>por<<", ">>cmn_Hans<<"})

    naming = read_naming(vocabulary, "en>de,fr,pt,zh")

    assert naming.asked == {
        "de": (">>deu<<",),
        "fr": (">>fra<<",),
        "pt": (">>por<<",),
        "zh": (">>cmn_Hans<<",),
    }


@pytest.mark.parametrize(
    ("languages", "why"),
    [
        ("", "TRANSCRIBER_TRANSLATION_LANGUAGES"),
        ("en", "TRANSCRIBER_TRANSLATION_LANGUAGES"),
        ("en>klingon", "klingon"),
        ("en>de,fr", "one language only"),
    ],
)
def test_a_model_that_does_not_say_what_it_translates_must_be_told(
    opus: Path, languages: str, why: str
) -> None:
    with pytest.raises(UnavailableError, match=why) as caught:
        CTranslator(opus, languages, "cpu", "int8", 1)

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


@pytest.mark.parametrize(
    "missing", ["model.bin", "config.json", "shared_vocabulary.json", "sentencepiece.bpe.model"]
)
def test_a_folder_that_lacks_a_file_is_a_typed_error(tmp_path: Path, missing: str) -> None:
    folder = write_model(tmp_path / "model", NLLB)
    (folder / missing).unlink()

    with pytest.raises(UnavailableError) as caught:
        CTranslator(folder, "", "cpu", "int8", 1)

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


async def test_each_segment_keeps_its_text_and_gets_its_translation(
    translator: CTranslator,
) -> None:
    engine = await engine_with(Talker(), translator, new_detector=Speaking)

    events = await events_of(engine, TALK, Request(language="en", language_out="de-AT"))

    spoken = [event for event in events if isinstance(event, Spoken)]
    assert [one.text for one in spoken] == ["The weather", "is lovely"]
    assert [one.translation for one in spoken] == ["Das Wetter", "ist herrlich"]
    assert events[0] == Ready("scripted", "cpu", "int8", "tiny-nllb")
    assert isinstance(events[-1], Heard)
    assert (events[-1].language, events[-1].language_out) == ("en", "de")


async def test_speech_in_the_wanted_language_is_not_translated_and_nothing_says_so(
    translator: CTranslator,
) -> None:
    engine = await engine_with(Talker(), translator, new_detector=Speaking)

    events = await events_of(engine, TALK, Request(language="de", language_out="de"))

    assert not any(event.translation for event in events if isinstance(event, Spoken))
    assert isinstance(events[-1], Heard)
    assert events[-1].language_out == ""


async def test_a_target_no_model_knows_is_refused_with_those_that_are_known(
    translator: CTranslator,
) -> None:
    engine = await engine_with(Talker(), translator)

    with pytest.raises(UnsupportedError, match="only into de, en, fr, pt") as caught:
        await events_of(engine, TALK, Request(language_out="ja"))

    assert caught.value.reason is Reason.TRANSLATION_UNSUPPORTED


@pytest.mark.parametrize("named", [True, False])
async def test_a_language_the_model_cannot_read_is_refused_when_it_is_known(
    opus: Path, named: bool
) -> None:
    decoder = Talker()
    decoder.spoken = "pt"
    translator = CTranslator(opus, "en>de", "cpu", "int8", 1)
    engine = await engine_with(decoder, translator, new_detector=Speaking)
    request = Request(language="pt" if named else "", language_out="de")

    with pytest.raises(UnsupportedError, match="'pt' cannot be translated into 'de'") as caught:
        await events_of(engine, TALK, request)

    assert caught.value.reason is Reason.TRANSLATION_UNSUPPORTED


async def test_of_mixed_languages_what_cannot_be_read_stays_as_it_was_said(opus: Path) -> None:
    decoder = Talker()
    decoder.spoken = "pt"
    translator = CTranslator(opus, "en>de", "cpu", "int8", 1)
    engine = await engine_with(decoder, translator, new_detector=Speaking)

    events = await events_of(engine, TALK, Request(language_out="de", mixed_languages=True))

    assert [one.translation for one in events if isinstance(one, Spoken)] == ["", ""]
    assert isinstance(events[-1], Heard)
    assert events[-1].language_out == ""


@pytest.mark.parametrize(
    ("model", "expected", "by"),
    [
        (None, "by the speech model", ""),
        ("opus", "by the speech model", ""),
        ("nllb", "The weather", "tiny-nllb"),
    ],
)
async def test_english_comes_from_the_translation_model_if_it_writes_english(
    nllb: Path, opus: Path, model: str | None, expected: str, by: str
) -> None:
    folder = {"opus": opus, "nllb": nllb}.get(model or "")
    translator = CTranslator(folder, "en>de", "cpu", "int8", 1) if folder else None
    engine = await engine_with(Talker(), translator, new_detector=Speaking)

    events = await events_of(engine, TALK, Request(language="pt", language_out="en"))

    spoken = [event for event in events if isinstance(event, Spoken)]
    assert spoken[0].translation == expected
    assert isinstance(events[0], Ready)
    assert events[0].translation_model == by
    assert isinstance(events[-1], Heard)
    assert events[-1].language_out == "en"


async def test_what_can_be_translated_is_told_the_preferred_way_first(opus: Path) -> None:
    translator = CTranslator(opus, "en>de", "cpu", "int8", 1)
    engine = await engine_with(Talker(frozenset({"en", "pt"})), translator)

    assert list(engine.translations()) == [
        TranslationFacts("tiny-opus", ("en",), ("de",)),
        TranslationFacts("scripted", ("en", "pt"), ("en",)),
    ]


@pytest.fixture
def killable(nllb: Path) -> Iterator[KillableTranslator]:
    load = partial(load_translator, nllb, "", "cpu", "int8", 1)
    with closing(KillableTranslator(load, idle_seconds=0.05)) as translator:
        yield translator


async def test_in_a_process_of_its_own_it_is_freed_and_comes_back(
    killable: KillableTranslator,
) -> None:
    await until(lambda: not killable.is_loaded)

    assert killable.translate(TO_GERMAN, patient) == [GERMAN]
    assert killable.targets == {"en", "de", "fr", "pt"}


def test_threads_that_ask_at_once_take_turns(killable: KillableTranslator) -> None:
    found: list[list[str]] = []

    def ask() -> None:
        found.append(killable.translate(TO_GERMAN, patient))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert found == [[GERMAN]] * 4


def test_whoever_gives_up_while_another_has_the_turn_does_not_wait(
    killable: KillableTranslator,
) -> None:
    with killable._turn, pytest.raises(AbandonedError):
        killable.translate(TO_GERMAN, lambda: True)


def test_a_folder_that_is_none_is_told_by_the_process_that_tried_it(tmp_path: Path) -> None:
    load = partial(load_translator, tmp_path / "nowhere", "", "cpu", "int8", 1)

    with pytest.raises(MeshError, match="nowhere") as caught:
        KillableTranslator(load)

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


async def test_a_service_with_a_translation_model_hears_and_translates(
    nllb: Path, weights_cache: Path
) -> None:
    (port,) = free_ports(1)
    with process(
        LISTEN=f"127.0.0.1:{port}",
        MODEL="base",
        CACHE_DIR=str(weights_cache),
        TRANSLATION_MODEL=str(nllb),
    ):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await _until_serving(channel)
            stub = rpc.TranscriberServiceStub(channel)
            listed = await stub.ListModels(pb.ListModelsRequest())
            frames = [start(language_out="de"), *audio_frames(recording("short"))]
            events = [event async for event in stub.Transcribe(iter(frames))]
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Transcribe(iter([start(language_out="ja")])).read()

    assert [one.model for one in listed.translations] == ["tiny-nllb", "base"]
    assert list(listed.translations[0].target_languages) == ["de", "en", "fr", "pt"]
    assert events[0].started.translation_model == "tiny-nllb"
    segments = [event.segment for event in events if event.HasField("segment")]
    assert " ".join(one.text for one in segments) == ENGLISH
    assert " ".join(one.translation for one in segments) == GERMAN
    assert (events[-1].finished.language, events[-1].finished.language_out) == ("en", "de")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert reason_of(refused.value) == "TRANSLATION_UNSUPPORTED"


async def test_a_translation_model_that_does_not_load_is_a_message_and_no_traceback(
    tmp_path: Path, weights_cache: Path
) -> None:
    with process(
        LISTEN="127.0.0.1:0",
        MODEL="tiny.en",
        CACHE_DIR=str(weights_cache),
        GRACE_SECONDS="0",
        TRANSLATION_MODEL=str(tmp_path),
    ) as running:
        _, said = await asyncio.to_thread(running.communicate, timeout=60)

    assert running.returncode == 69
    assert "MODEL_UNAVAILABLE" in said
    assert "Traceback" not in said
