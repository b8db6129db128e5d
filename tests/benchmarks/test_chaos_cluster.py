"""The cluster chaos in small, real but for its stages, and the counting that judges it."""

import asyncio
import json
import os
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.chaos_caller import Seen
from benchmarks.chaos_cluster import Arguments, run_phase
from benchmarks.chaos_report import judge
from benchmarks.cluster_brokers import running_brokers
from benchmarks.cluster_clocks import HOUR_SECONDS, find_library, set_clock, variables
from benchmarks.cluster_links import RESEND_SECONDS, Way
from benchmarks.cluster_load import Judged, Noted, Quorum
from benchmarks.cluster_memory import LAST_WORDS, run_out_of_memory
from benchmarks.cluster_phases import PHASES, Phase, Trial
from benchmarks.cluster_report import Result, described, table, to_json
from benchmarks.soak_samples import Sample, grown, longest_life, trend
from tests.support.polling import until
from ytcaption.v1 import job_pb2

SMALL = Arguments(
    jobs=12, real_jobs=1, seed=7, scale=0.3, limit_seconds=200, network="links", old=""
)


async def _kill_and_cut(trial: Trial) -> None:
    """One kill of a leader, and one partition."""
    events = next(
        info.config.name
        for info in await trial.brokers.streams()
        if (info.config.name or "").endswith("_EVENTS")
    )
    await trial.kill_and_restart_broker(await trial.brokers.leader_of(events or ""))
    await trial.cut_off((await trial.brokers.leader_of(events or "")).number, wholly=False)


@pytest.mark.timeout(290)
async def test_the_kill_of_a_leader_and_a_partition_lose_repeat_and_change_nothing() -> None:
    phase = Phase(_kill_and_cut, need="cut", share=1)
    result = await run_phase("short", SMALL, phase)

    assert result.fault() == "", described(result)
    assert len(result.judged) >= SMALL.jobs
    assert (result.tally.broker_kills, result.tally.partitions) == (1, 1)
    assert result.network == "links"


async def test_a_broker_that_gets_no_more_memory_ends_and_can_be_started_again(
    tmp_path: Path,
) -> None:
    async with running_brokers(tmp_path, "direct") as brokers:
        node = brokers.nodes[0]
        await run_out_of_memory(node)
        assert not node.alive
        await node.start()

    assert LAST_WORDS.search(node.configuration.with_suffix(".log").read_bytes())


async def test_the_clock_of_a_running_process_jumps_ahead_and_back(tmp_path: Path) -> None:
    library = find_library()
    if library is None:
        pytest.skip("libfaketime is not installed")
    set_clock(tmp_path / "clock", 0)
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-c",
            "import sys, time\nfor _ in sys.stdin: print(time.time(), flush=1)",
        ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **variables(library, tmp_path / "clock")},
    )
    asked, answers = process.stdin, process.stdout
    assert asked is not None
    assert answers is not None

    async def hours_ahead() -> int:
        asked.write(b"\n")
        return round((float(await answers.readline()) - time.time()) / HOUR_SECONDS)

    async def has_jumped(hours: int) -> bool:
        return await hours_ahead() == hours

    try:
        for hours in (0, 1, -1, 0):
            set_clock(tmp_path / "clock", hours * HOUR_SECONDS)
            await until(lambda hours=hours: has_jumped(hours), 60)
    finally:
        process.kill()
        await process.wait()


def test_every_phase_says_what_it_does() -> None:
    assert all(phase.run.__doc__ for phase in PHASES.values())


DONE = job_pb2.Job(state=job_pb2.JOB_STATE_SUCCEEDED, attempt=1)
FINE = Judged(
    judge("id", "url", DONE, [], Seen(), differs=False),
    ended=True,
    known=True,
    disordered=0,
    transcript_differs=False,
)
FAILED = judge("id", "url", job_pb2.Job(state=job_pb2.JOB_STATE_FAILED), [], Seen(), differs=False)


def _fault(one: Judged) -> str:
    return Result("some", "direct", judged=[FINE, one]).fault()


@pytest.mark.parametrize(
    ("one", "fault"),
    [
        (FINE, ""),
        (replace(FINE, outcome=FAILED), "1 accepted jobs lost"),
        (replace(FINE, known=False, ended=False), "1 accepted jobs lost"),
        (replace(FINE, ended=False), "1 jobs not ended"),
        (replace(FINE, endless=True), "1 ended jobs whose watch does not end"),
        (replace(FINE, outcome=replace(FINE.outcome, ends=2)), "1 jobs run or ended twice"),
        (replace(FINE, outcome=replace(FINE.outcome, missed=3)), "3 events missing"),
        (replace(FINE, outcome=replace(FINE.outcome, repeated=2)), "2 events repeated"),
        (replace(FINE, disordered=1), "1 events out of order"),
        (replace(FINE, transcript_differs=True), "1 transcripts that differ from the event log"),
    ],
)
def test_every_fault_is_named(one: Judged, fault: str) -> None:
    assert _fault(one) == fault


def test_faults_of_the_whole_are_named_and_written() -> None:
    result = Result("some", "direct", unaccepted=1, surplus=2, noted=Noted(not_found=3))
    result.exits["orchestrator"] += 1
    result.noted.bad["INTERNAL : what"] += 4

    assert result.fault() == (
        "1 jobs not accepted in time, 2 jobs run or ended twice, "
        "3 accepted jobs NOT_FOUND to a watcher, 4 INTERNAL and other unexpected errors, "
        "1 orchestrators that ended by themselves"
    )
    assert json.dumps(to_json(result))
    assert "some" in table([result])


def test_the_longest_wait_leaves_out_the_time_without_a_quorum() -> None:
    quorum = Quorum(began=0, accepts=[1, 2, 50, 53], lost=[(3, 45)])

    assert quorum.longest_wait(54) == 5  # from the quorum's return to the first accept
    assert Quorum(began=0, accepts=[1, 9]).longest_wait(10) == 8


def test_a_way_delays_all_and_resends_what_is_lost() -> None:
    way = Way(random.Random(1), delay=0.05)  # noqa: S311 # to be repeatable

    assert way.seconds_for(10_000) == 0.05
    way.loss = 0.01
    spent = [way.seconds_for(1000) for _ in range(2000)]
    resent = [seconds for seconds in spent if seconds > 0.05]
    assert 5 <= len(resent) <= 40
    assert min(resent) == pytest.approx(0.05 + RESEND_SECONDS)


def _samples(*memory: float, pid: int = 1) -> list[Sample]:
    return [Sample(at * 60, pid, int(each * 1e6), 10, 5) for at, each in enumerate(memory)]


def test_growth_is_a_line_after_the_warm_up_and_not_noise() -> None:
    climbing = [100 + 5 * minute for minute in range(40)]
    noise = [100 + (minute * 7919) % 60 for minute in range(40)]
    warm = [20.0 * minute for minute in range(10)] + [200.0] * 30

    assert grown({"leak": _samples(*climbing)}) == ["memory of leak: 150.0 to 295.0"]
    assert grown({"noise": _samples(*noise), "warm": _samples(*warm)}) == []
    assert trend(_samples(1, 2, 3), "memory") is None


def test_a_restart_begins_anew() -> None:
    assert longest_life([*_samples(1, 2), *_samples(3, 4, 5, pid=2)])[0].pid == 2
