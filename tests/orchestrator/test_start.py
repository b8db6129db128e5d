"""The process of the orchestrator, as it starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

from mesh.addresses import free_ports


def test_variables_of_the_earlier_system_without_a_meaning_are_named_once_each(
    tmp_path: Path,
) -> None:
    old = {"REDIS_URL": "redis://user:secret@r", "POLL_INTERVAL": "3", "MAX_POLL_ATTEMPTS": "600"}
    own = {
        "ORCHESTRATOR_NATS_URL": f"nats://127.0.0.1:{free_ports(1)[0]}",  # nobody listens
        "ORCHESTRATOR_WORK_DIR": str(tmp_path),
        "WORKERS": "4",
    }

    ended = subprocess.run(
        [sys.executable, "-m", "orchestrator"],
        env={**os.environ, **old, **own},
        capture_output=True,
        text=True,
        timeout=240,
    )

    lines = [json.loads(line) for line in ended.stderr.splitlines() if line.startswith("{")]
    told = [line["variable"] for line in lines if "no meaning here" in line["event"]]
    assert sorted(told) == sorted(old)
    assert "secret" not in ended.stderr
    assert ended.returncode == 69
