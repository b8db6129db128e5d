"""The load benchmark in small: that it measures, not how fast anything is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.load_figures import Figure, percentile, spread, table
from benchmarks.load_stages import Plan

SMALL = {
    "--jobs": 20,
    "--callers": 4,
    "--finished": 3,
    "--watchers": 12,
    "--crowd": 13,
    "--crowd-segments": 3,
    "--crowd-every": 0.05,
    "--streams": 12,
    "--segments": 3,
    "--every": 0.01,
    "--stored": 120,
    "--calls": 5,
    "--slow": 12,
    "--slow-segments": 5,
}

RATIOS = [
    (1.5, "event to watcher, p99", "machine: bare gRPC to as many streams, p99"),
    (
        1.5,
        "event to watcher over two orchestrators, p99",
        "machine: bare gRPC to as many streams over two servers, p99",
    ),
    (2.5, "event to client over HTTP, p99", "event to watcher, p99"),
]


def test_a_small_load_measures_everything_and_loses_nothing(tmp_path: Path) -> None:
    sizes = [str(word) for pair in SMALL.items() for word in pair]
    command = [sys.executable, "-m", "benchmarks.load", *sizes, "--results", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)

    (path,) = tmp_path.glob("load-*.json")
    result = json.loads(path.read_text())
    figures = {figure["name"]: figure for figure in result["figures"]}
    assert all(figure["value"] == figure["value"] for figure in figures.values())  # no NaN
    assert figures["watchers of one job held to its end"]["value"] == 12
    assert figures["streams held to the end, with every event once"]["value"] == 12
    assert figures["stores a job takes until it is accepted"]["value"] >= 2
    raw = figures["machine: JetStream stores, 64 at once"]["value"]
    stores = figures["stores a job takes until it is accepted"]["value"]
    accepted = figures["jobs accepted durably, 4 callers"]
    assert accepted["target"] == pytest.approx(0.8 * raw / stores)
    for share, slower, quicker in RATIOS:
        assert figures[slower]["target"] == pytest.approx(share * figures[quicker]["value"])
    assert figures["slow watchers that lost or doubled a segment"]["value"] == 0
    assert figures["machine: JetStream stores, one after another"]["value"] > 0
    finished = figures["null-stage jobs finished, two orchestrators, 8 at once each"]
    assert finished["value"] > 0
    assert finished["target"] == 150
    assert figures["machine: as many as the broker stores"]["value"] > 0
    assert (
        figures["watchers over two orchestrators that got every event once, to the end"]["value"]
        == 13
    )
    assert "orchestrator ready with 120 stored" in figures
    assert result["asked"]["stored"] == 120
    missed = [name for name, figure in figures.items() if not figure["met"]]
    assert (ran.returncode == 0) == (not missed), ran.stderr  # this machine may be slow
    for name in figures:
        assert name in ran.stdout


def test_the_load_is_measured_with_tls_too(tmp_path: Path) -> None:
    sizes = {"--jobs": 8, "--callers": 2, "--finished": 2, "--watchers": 2, "--segments": 2}
    small = [str(word) for pair in sizes.items() for word in pair]
    left_out = ["--stored", "0", "--slow", "0", "--results", str(tmp_path)]
    command = [sys.executable, "-m", "benchmarks.load", "--tls", *small, *left_out]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)

    (path,) = tmp_path.glob("load-*.json")
    result = json.loads(path.read_text())
    figures = {figure["name"]: figure["value"] for figure in result["figures"]}
    assert result["asked"]["tls"], ran.stderr
    assert figures["jobs accepted durably, 2 callers"] > 0
    assert figures["null-stage jobs finished, two orchestrators, 8 at once each"] > 0
    assert figures["watchers of one job held to its end"] == 2


def test_the_help_names_every_size() -> None:
    command = [sys.executable, "-m", "benchmarks.load", "--help"]
    helped = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200"}
    )

    for option in SMALL:
        assert option in helped.stdout


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_a_percentile_is_a_value_that_was_measured(share: float, value: float) -> None:
    assert percentile([float(number) for number in range(100, 0, -1)], share) == value


def test_a_target_is_met_at_its_very_value_and_missed_beyond() -> None:
    assert Figure("rate", 200, "/s", 200).met
    assert not Figure("rate", 199.9, "/s", 200).met
    assert Figure("time", 20, "ms", 20, "less").met
    assert not Figure("time", 20.1, "ms", 20, "less").met
    assert Figure("whatever", 0, "").met


def test_the_table_says_which_target_was_missed() -> None:
    lines = table(spread("wait", [0.001] * 98 + [0.5, 0.5], 20)).splitlines()

    assert lines[0].split() == ["wait,", "p50", "1.0", "ms"]
    assert lines[1].endswith("≤ 20 MISSED")


def test_an_address_carries_the_plan_of_its_job() -> None:
    plan = Plan(segments=7, every=0.25, text=2000, number=3)

    assert Plan.of(plan.url) == plan
    assert Plan.of("http://null.test/") == Plan()
