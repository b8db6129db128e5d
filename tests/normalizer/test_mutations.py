"""Corrupted media gives audio or a typed error; `make bench-mutated` runs a thousand."""

from itertools import islice
from pathlib import Path

from benchmarks.mutated import engine_in, examine
from benchmarks.mutations import mutants
from tests.normalizer.media import files_in

FILES = 60


async def test_corrupted_media_gives_audio_or_its_own_reason(tmp_path: Path) -> None:
    findings = await examine(engine_in(tmp_path), FILES, seed=2026)

    assert findings.faults == []
    assert findings.outcomes.total() == FILES
    assert findings.outcomes["audio"]
    assert findings.outcomes["CORRUPT_MEDIA"]
    assert files_in(tmp_path) == []


def test_the_same_seed_makes_the_same_mutations() -> None:
    files = {"a.wav": bytes(range(256)) * 99, "b.mp3": b"\xff" * 9999}

    assert list(islice(mutants(files, 3), 50)) == list(islice(mutants(files, 3), 50))
    assert list(islice(mutants(files, 3), 50)) != list(islice(mutants(files, 4), 50))
