"""`python -m transcriber` as a process."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import psutil
import pytest

from mesh.addresses import free_ports
from tests.support.polling import until
from tests.support.processes import lives
from tests.support.speech import audio_frames, recording, start
from tests.support.transcriber_process import ROOT, process, until_serving
from transcriber.model.backends import recorded
from ytcaption.v1 import transcriber_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2_grpc as rpc


async def test_it_is_healthy_once_the_model_is_loaded_and_exits_on_sigterm(
    weights_cache: Path,
) -> None:
    (port,) = free_ports(1)
    with process(LISTEN=f"127.0.0.1:{port}", MODEL="base", CACHE_DIR=str(weights_cache)) as running:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await until_serving(channel)
            stub = rpc.TranscriberServiceStub(channel)
            models = (await stub.ListModels(pb.ListModelsRequest())).models
        running.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(running.wait, 120)

    assert code == 0
    assert [model.name for model in models if model.loaded and model.selected] == ["base"]


async def test_a_service_killed_during_a_decode_leaves_no_model_process(
    weights_cache: Path,
) -> None:
    (port,) = free_ports(1)
    settings = {"LISTEN": f"127.0.0.1:{port}", "MODEL": "tiny.en", "CACHE_DIR": str(weights_cache)}
    with process(**settings) as running:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await until_serving(channel)
            below = psutil.Process(running.pid).children(recursive=True)
            frames = [start(language="en"), *audio_frames(recording("sample") * 20)]
            call = rpc.TranscriberServiceStub(channel).Transcribe(iter(frames))
            async for event in call:
                if event.HasField("segment"):  # the next window is under way
                    break
            running.kill()
            with pytest.raises(grpc.aio.AioRpcError):
                [event async for event in call]

    assert len(below) >= 2  # the fork server and its child
    await until(lambda: not any(map(lives, below)))


def test_the_first_start_measures_how_the_model_computes_fastest_and_the_next_does_not(
    tmp_path: Path,
) -> None:
    settings = {"MODEL": "tiny.en", "CACHE_DIR": str(tmp_path), "MEASURE_BACKENDS": "true"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        # It measures before it listens, and ends there.
        settings["LISTEN"] = f"127.0.0.1:{taken.getsockname()[1]}"
        with process(**settings) as running:
            running.communicate(timeout=900)
        record = tmp_path / "backend.json"
        measured = record.stat().st_mtime_ns
        assert recorded(tmp_path, "tiny.en") is not None

        with process(**settings) as running:
            running.communicate(timeout=900)
    assert record.stat().st_mtime_ns == measured


async def test_a_service_killed_while_it_measures_leaves_no_process(tmp_path: Path) -> None:
    settings = {"MODEL": "tiny.en", "CACHE_DIR": str(tmp_path), "MEASURE_BACKENDS": "true"}
    with process(LISTEN="127.0.0.1:0", **settings) as running:
        itself = psutil.Process(running.pid)
        await until(lambda: len(itself.children(recursive=True)) == 2, 120)
        below = itself.children(recursive=True)
        running.kill()
        await until(lambda: not any(map(lives, below)))

    assert recorded(tmp_path, "tiny.en") is None


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"MODEL": "enormous"}, 69, "MODEL_UNAVAILABLE"),
        ({"BEAM_SIZE": "50"}, 78, "beam_size"),
    ],
)
def test_a_bad_setting_is_a_message_and_no_traceback(
    settings: dict[str, str], code: int, words: str
) -> None:
    with process(LISTEN="127.0.0.1:0", GRACE_SECONDS="0", **settings) as running:
        _, said = running.communicate(timeout=240)

    assert running.returncode == code
    assert words in said
    assert "Traceback" not in said


def test_the_service_does_not_load_the_libraries_of_its_model_processes() -> None:
    program = "import sys, transcriber.__main__; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'gen'}"}

    shown = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )

    assert not {"av", "ctranslate2", "faster_whisper", "tokenizers"} & set(shown.stdout.split())
