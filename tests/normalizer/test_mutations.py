"""Spoiled media gives audio or a typed refusal; `make bench-mutated` runs a thousand."""

from itertools import islice
from pathlib import Path

from benchmarks.mutated import engine_in, examine
from benchmarks.mutations import mutants
from tests.normalizer.media import files_in

FILES = 60


async def test_spoiled_media_is_heard_or_refused_for_a_reason_of_its_own(tmp_path: Path) -> None:
    findings = await examine(engine_in(tmp_path), FILES, seed=2026)

    assert findings.faults == []
    assert findings.outcomes.total() == FILES
    assert findings.outcomes["audio"]
    assert findings.outcomes["CORRUPT_MEDIA"]
    assert files_in(tmp_path) == []


def test_the_same_seed_spoils_the_same_way() -> None:
    files = {"a.wav": bytes(range(256)) * 99, "b.mp3": b"\xff" * 9999}

    assert list(islice(mutants(files, 3), 50)) == list(islice(mutants(files, 3), 50))
    assert list(islice(mutants(files, 3), 50)) != list(islice(mutants(files, 4), 50))
