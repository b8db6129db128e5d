"""Translation in a process of its own, and in the whole service."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import grpc
import pytest

from mesh.addresses import free_ports
from mesh.errors import MeshError
from mesh.reasons import Reason
from mesh.status import reason_of
from tests.support.polling import until
from tests.support.speech import audio_frames, recording, start
from tests.support.tiny_translation import ENGLISH, GERMAN, TO_GERMAN, patient
from tests.support.transcriber_process import process, until_serving
from transcriber.decoder import AbandonedError
from transcriber.model.restartable import RestartableTranslator
from transcriber.translation.ctranslate import CTranslator
from ytcaption.v1 import transcriber_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2_grpc as rpc


@pytest.fixture
def restartable(nllb: Path) -> Iterator[RestartableTranslator]:
    load = partial(CTranslator, nllb, "", "cpu", "int8", 1)
    with closing(RestartableTranslator(load, idle_seconds=0.05)) as translator:
        yield translator


async def test_an_idle_translator_is_freed_and_reloaded(
    restartable: RestartableTranslator,
) -> None:
    await until(lambda: not restartable.is_loaded)

    assert restartable.translate(TO_GERMAN, patient) == [GERMAN]
    assert restartable.targets == {"en", "de", "fr", "pt"}


def test_concurrent_translations_take_turns(restartable: RestartableTranslator) -> None:
    found: list[list[str]] = []

    def ask() -> None:
        found.append(restartable.translate(TO_GERMAN, patient))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert found == [[GERMAN]] * 4


def test_an_abandoned_translation_does_not_wait_for_its_turn(
    restartable: RestartableTranslator,
) -> None:
    with restartable._turn, pytest.raises(AbandonedError):
        restartable.translate(TO_GERMAN, lambda: True)


def test_a_missing_folder_is_a_typed_error_from_the_model_process(tmp_path: Path) -> None:
    load = partial(CTranslator, tmp_path / "nowhere", "", "cpu", "int8", 1)

    with pytest.raises(MeshError, match="nowhere") as caught:
        RestartableTranslator(load)

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


async def test_a_service_with_a_translation_model_transcribes_and_translates(
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
            await until_serving(channel)
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
        _, said = await asyncio.to_thread(running.communicate, timeout=120)

    assert running.returncode == 69
    assert "MODEL_UNAVAILABLE" in said
    assert "Traceback" not in said
