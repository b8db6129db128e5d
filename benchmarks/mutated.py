"""Spoiled media through the real normalizer: audio or a typed refusal, never a hang or a crash.

python -m benchmarks.mutated --files 1000 --seed 1
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from benchmarks.mutations import Mutant, mutants, originals
from mesh.errors import MeshError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason
from normalizer.capabilities import CapabilityProbe
from normalizer.engine import Options, Request, Samples
from normalizer.ffmpeg_engine import FfmpegEngine, RecordingLimits
from normalizer.processes import ProcessLimits
from normalizer.spool import Spool
from normalizer.voice_isolator import DEFAULT

HANG_SECONDS = 60.0
"""Far beyond what any of these small files takes on a busy machine."""

AT_ONCE = 2
OF_THE_MEDIA = frozenset(
    {
        Reason.NOT_MEDIA,
        Reason.NO_AUDIO,
        Reason.EMPTY_MEDIA,
        Reason.CORRUPT_MEDIA,
        Reason.TOO_LONG,
        Reason.TOO_LARGE,
    }
)
"""Refusals that say something about the file."""


@dataclass
class Findings:
    """How the files fared."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0


def engine_in(folder: Path) -> FfmpegEngine:
    """The real engine, with limits fit for small files."""
    process_limits = ProcessLimits(memory=2**31, cpu_seconds=120)
    limits = RecordingLimits(timedelta(minutes=10), stall_seconds=30, process=process_limits)
    capabilities = CapabilityProbe("", DEFAULT, process_limits)
    return FfmpegEngine(capabilities, limits, Spool(folder, 2**26), AT_ONCE, AT_ONCE)


async def examine(engine: FfmpegEngine, files: int, seed: int) -> Findings:
    """Runs so many spoiled files; each has a time it cannot need."""
    findings = Findings()
    queue = enumerate(islice(mutants(originals(), seed), files))

    async def work() -> None:
        for number, mutant in queue:
            began = monotonic()
            description = f"file {number} of seed {seed} ({mutant.description})"
            findings.outcomes[await _outcome(engine, mutant, number, description, findings)] += 1
            findings.slowest = max(findings.slowest, monotonic() - began)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return findings


async def _outcome(
    engine: FfmpegEngine, mutant: Mutant, number: int, description: str, findings: Findings
) -> str:
    options = Options(apply_highpass_filter=bool(number % 3), remove_noise=True)
    request = Request(options, keep_audio=bool(number % 2))
    heard = 0
    try:
        async with asyncio.timeout(HANG_SECONDS):
            async for event in engine.normalize(_sent(mutant.data), request):
                heard += len(event.data) if isinstance(event, Samples) else 0
    except MeshError as error:
        if error.reason not in OF_THE_MEDIA:
            findings.faults.append(f"{description}: {error.reason}: {error}")
        return str(error.reason)
    except TimeoutError:
        findings.faults.append(f"{description}: it hangs")
        return "hang"
    except Exception as error:  # noqa: BLE001 # exactly what must not happen
        findings.faults.append(f"{description}: {error!r}")
        return "crash"
    if not heard:
        findings.faults.append(f"{description}: it ended well, with nothing")
    return "audio"


async def _sent(data: bytes) -> AsyncIterator[bytes]:
    for begin in range(0, len(data), MAX_FRAME_BYTES):
        yield data[begin : begin + MAX_FRAME_BYTES]
        await asyncio.sleep(0)


def main(files: int, seed: int) -> int:
    """Says how the files fared; 0 if none found a fault."""
    with TemporaryDirectory() as folder:
        findings = asyncio.run(examine(engine_in(Path(folder)), files, seed))
        left_over = list(Path(folder).iterdir())
    for outcome, count in findings.outcomes.most_common():
        print(f"{count:6} {outcome}")
    print(f"slowest: {findings.slowest:.1f} s; files left over: {len(left_over)}")
    for fault in findings.faults:
        print(f"FAULT {fault}")
    return 1 if findings.faults or left_over else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    sys.exit(main(wanted.files, wanted.seed))
