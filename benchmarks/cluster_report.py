"""What a phase of the cluster chaos counted, judged; a table of all phases."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.cluster_load import Judged, Noted

MIN_BROKER_KILLS = 15
MIN_PARTITIONS = 5


@dataclass(slots=True)
class Tally:
    """The faults that were forced."""

    broker_kills: int = 0
    partitions: int = 0
    impairments: int = 0
    """Of the network: loss, delay, a broker that is not heard."""
    kills: Counter[str] = field(default_factory=Counter)
    """Of processes besides brokers, by kind."""
    freezes: int = 0
    restarts: int = 0
    """Orderly ones."""
    full_disks: int = 0
    clock_jumps: int = 0
    out_of_memory: int = 0
    """Brokers that ended for want of memory."""
    repairs: int = 0
    """Restarts of brokers that did not go on by themselves."""


@dataclass(slots=True)
class Result:
    """One phase from its first job to its last."""

    name: str
    network: str
    tally: Tally = field(default_factory=Tally)
    judged: list[Judged] = field(default_factory=list)
    noted: Noted = field(default_factory=Noted)
    unaccepted: int = 0
    surplus: int = 0
    """Jobs beyond those accepted: a repeated request made a second one."""
    exits: Counter[str] = field(default_factory=Counter)
    longest_wait: float = 0
    bare_wait: float = 0
    """The longest time in which the brokers answered nothing, while a quorum lived."""
    wall_seconds: float = 0
    broken: str = ""
    """Why the phase itself could not be carried out."""

    def invariants(self) -> dict[str, int]:
        """What must be 0."""
        outcomes = [one.outcome for one in self.judged]
        return {
            "jobs not accepted in time": self.unaccepted,
            "accepted jobs lost": sum(
                not one.known or (one.ended and one.outcome.lost) for one in self.judged
            ),
            "jobs not ended": sum(one.known and not one.ended for one in self.judged),
            "ended jobs whose watch does not end": sum(one.endless for one in self.judged),
            "jobs run or ended twice": sum(one.ran_twice for one in outcomes) + abs(self.surplus),
            "events missing": sum(one.missed for one in outcomes if one.state == "SUCCEEDED"),
            "events repeated": sum(one.repeated for one in outcomes),
            "events out of order": sum(one.disordered for one in self.judged),
            "transcripts that differ from the event log": sum(
                one.transcript_differs for one in self.judged
            ),
            "accepted jobs NOT_FOUND to a watcher": self.noted.not_found,
            "INTERNAL and other unexpected errors": self.noted.bad.total(),
            "orchestrators that ended by themselves": self.exits["orchestrator"],
            "stages that ended by themselves": self.exits.total() - self.exits["orchestrator"],
        }

    def fault(self) -> str:
        """Why the phase fails; empty if it passes."""
        broken = [self.broken] if self.broken else []
        counted = [f"{count} {name}" for name, count in self.invariants().items() if count]
        return ", ".join(broken + counted)

    def rows(self) -> list[tuple[str, object]]:
        """Every figure, with its name."""
        attempts = [one.outcome.attempts for one in self.judged]
        refusals, tally = self.noted.refusals, self.tally
        kills = ", ".join(f"{name} {count}" for name, count in sorted(tally.kills.items()))
        return [
            ("network", self.network),
            ("jobs accepted", len(self.judged)),
            *self.invariants().items(),
            ("broker kills", tally.broker_kills),
            ("partitions", tally.partitions),
            ("other impairments of the network", tally.impairments),
            ("kills of other processes", kills or 0),
            ("freezes", tally.freezes),
            ("orderly restarts", tally.restarts),
            ("full disks", tally.full_disks),
            ("jumps of clocks", tally.clock_jumps),
            ("brokers that ran out of memory", tally.out_of_memory),
            ("brokers restarted because they did not go on", tally.repairs),
            ("longest time without an accept while a quorum lived", f"{self.longest_wait:.1f} s"),
            ("longest time the brokers had no leader to accept with", f"{self.bare_wait:.1f} s"),
            ("jobs refused for want of storage", len(refusals)),
            ("refusals that took longer than 2 s", sum(each > 2 for each in refusals)),
            ("slowest refusal", f"{max(refusals, default=0):.1f} s"),
            ("attempts a job, mean and most", f"{_mean(attempts):.2f}, {max(attempts, default=0)}"),
            ("NOT_FOUND of orchestrators of an earlier version", self.noted.not_found_by_old),
            ("transcripts that differ, while one of them ran", self.noted.differ_by_old),
            ("watches begun again", sum(one.outcome.cuts for one in self.judged)),
            ("errors met by callers", dict(self.noted.codes.most_common(6)) or "none"),
            ("wall time", f"{self.wall_seconds:.0f} s"),
        ]


def _mean(values: Sequence[int]) -> float:
    return sum(values) / max(1, len(values))


def described(result: Result) -> str:
    """A line for each figure of a phase."""
    rows = result.rows()
    width = max(len(name) for name, _ in rows)
    lines = [f"phase {result.name}: {result.fault() or 'passed'}"]
    lines += [f"  {name.ljust(width)}  {value}" for name, value in rows]
    lines += [f"  {count} times: {what}" for what, count in result.noted.bad.most_common(5)]
    return "\n".join(lines)


HEAD = (
    *("phase", "jobs", "lost", "not ended", "twice", "events", "transcripts", "not found"),
    *("internal", "exits", "broker kills", "cuts", "no accept", "wall"),
)


def table(results: Sequence[Result]) -> str:
    """A line for each phase."""
    lines = [HEAD, *map(_cells, results)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


def _cells(result: Result) -> tuple[str, ...]:
    found = result.invariants()
    events = sum(count for name, count in found.items() if name.startswith("events"))
    counts = (
        len(result.judged),
        found["accepted jobs lost"] + found["jobs not accepted in time"],
        found["jobs not ended"] + found["ended jobs whose watch does not end"],
        found["jobs run or ended twice"],
        events,
        found["transcripts that differ from the event log"],
        found["accepted jobs NOT_FOUND to a watcher"],
        found["INTERNAL and other unexpected errors"],
        result.exits.total(),
        result.tally.broker_kills,
        result.tally.partitions,
    )
    times = (f"{result.longest_wait:.1f} s", f"{result.wall_seconds:.0f} s")
    return (result.name, *map(str, counts), *times)


def totals(results: Sequence[Result]) -> tuple[int, int]:
    """Broker kills and partitions of all phases."""
    tallies = [result.tally for result in results]
    return sum(one.broker_kills for one in tallies), sum(one.partitions for one in tallies)


def to_json(result: Result) -> dict[str, Any]:
    """Everything that was counted; of the jobs, only those with a fault."""
    return {
        "phase": result.name,
        "network": result.network,
        "jobs": len(result.judged),
        "invariants": result.invariants(),
        "fault": result.fault(),
        "figures": {name: str(value) for name, value in result.rows()},
        "broker_kills": result.tally.broker_kills,
        "partitions": result.tally.partitions,
        "kills": dict(result.tally.kills),
        "unexpected_errors": dict(result.noted.bad),
        "exits": dict(result.exits),
        "longest_seconds_without_accept": result.longest_wait,
        "longest_seconds_without_leaders": result.bare_wait,
        "wall_seconds": result.wall_seconds,
        "jobs_with_a_fault": [asdict(one) for one in result.judged if _is_faulty(one)],
    }


def _is_faulty(one: Judged) -> bool:
    outcome = one.outcome
    bad = outcome.lost or outcome.ran_twice or outcome.repeated or outcome.missed
    return bool(bad or one.disordered or one.transcript_differs or one.endless)
