"""`python -m normalizer` starts, reports readiness, stops on SIGTERM, and fails in one line."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from tests.normalizer.media import recording
from ytcaption.v1 import normalizer_service_pb2 as pb
from ytcaption.v1 import normalizer_service_pb2_grpc as rpc

ROOT = Path(__file__).parents[2]


def spawn(**settings: str) -> "subprocess.Popen[str]":
    defaults = {"LISTEN": "127.0.0.1:0", "METRICS_LISTEN": ""}
    variables = {f"NORMALIZER_{key}": value for key, value in (defaults | settings).items()}
    path = f"{ROOT}{os.pathsep}{ROOT / 'gen'}"
    return subprocess.Popen(
        [sys.executable, "-m", "normalizer"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **variables},
        stderr=subprocess.PIPE,
        text=True,
    )


def log_line(process: "subprocess.Popen[str]", event: str) -> dict[str, object]:
    assert process.stderr is not None
    for line in process.stderr:
        words: dict[str, object] = json.loads(line)
        if words["event"] == event:
            return words
    raise AssertionError(f"it never logged {event!r}")


def test_the_service_serves_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    left_behind = tmp_path / "recording-old" / "media"
    left_behind.parent.mkdir()
    left_behind.write_bytes(b"from a process that was killed")
    frames = [
        pb.NormalizeRequest(start=pb.NormalizeStart(job_id="j1")),
        pb.NormalizeRequest(chunk=recording("flac")[:60_000]),
    ]
    with spawn(WORK_DIR=str(tmp_path)) as process:
        port = log_line(process, "listening")["port"]
        log_line(process, "ready")
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = rpc.NormalizerServiceStub(channel)  # type: ignore[arg-type] # stubs are aio's
            kinds = [event.WhichOneof("event") for event in stub.Normalize(iter(frames))]  # type: ignore[attr-defined]
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)

    assert kinds[0] == "started"
    assert kinds[-1] == "finished"
    assert code == 0
    assert not left_behind.exists()


@pytest.mark.parametrize(
    ("settings", "word", "code"),
    [
        ({"FFMPEG": "/nowhere/ffmpeg"}, "TOOL_MISSING", 69),
        ({"MAX_RECORDINGS": "0"}, "max_recordings", 78),
    ],
)
def test_a_service_that_cannot_start_says_why_without_a_traceback(
    settings: dict[str, str], word: str, code: int
) -> None:
    with spawn(**settings) as process:
        _, words = process.communicate(timeout=120)

    assert process.returncode == code
    assert word in words
    assert "Traceback" not in words
