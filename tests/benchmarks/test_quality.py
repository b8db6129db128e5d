"""The quality benchmark as it is called, its cache, and a small real run."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import quality_cache
from benchmarks.asr_contestants import Terms
from benchmarks.asr_heard import Heard, Piece
from benchmarks.quality import main
from benchmarks.quality_cache import Cache, key_of

ROOT = Path(__file__).parents[2]
TERMS = Terms("base", 5, "int8", 1)
SAMPLES = np.arange(100, dtype=np.int16)
HEARD = Heard(1.5, [Piece(0.0, 1.0, " Olá", 0.5)], 10.0, 7, "pt")


def test_the_key_of_an_answer_changes_with_all_that_may_change_the_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed = SAMPLES.copy()
    changed[50] += 1
    keys = [
        key_of(SAMPLES, "sequential", TERMS),
        key_of(changed, "sequential", TERMS),
        key_of(SAMPLES, "batched-8", TERMS),
        key_of(SAMPLES, "batched-4", TERMS),
        key_of(SAMPLES, "sequential", replace(TERMS, model="tiny.en")),
        key_of(SAMPLES, "sequential", replace(TERMS, beam=1)),
        key_of(SAMPLES, "sequential", replace(TERMS, compute_type="float32")),
    ]
    for engine in ("faster-whisper", "ctranslate2"):
        monkeypatch.setattr(quality_cache, "version", {engine: "next"}.get)
        keys.append(key_of(SAMPLES, "sequential", TERMS))

    assert len(set(keys)) == len(keys)


def test_the_key_stays_the_same_for_the_same_work_on_more_threads() -> None:
    again = key_of(SAMPLES.copy(), "sequential", replace(TERMS, threads=2))

    assert again == key_of(SAMPLES, "sequential", TERMS)


def test_the_cache_returns_what_was_stored_and_nothing_else(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.store("abc", HEARD)

    assert cache.load("abc") == HEARD
    assert cache.load("abd") is None
    assert cache.hits == 1


def test_an_unreadable_answer_is_heard_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.store("abc", HEARD)
    (path,) = tmp_path.rglob("*.json")
    path.write_text(path.read_text(encoding="utf-8")[:20], encoding="utf-8")

    assert cache.load("abc") is None


def test_without_a_folder_nothing_is_stored() -> None:
    cache = Cache(None)
    cache.store("abc", HEARD)

    assert cache.load("abc") is None


@pytest.mark.parametrize(
    "arguments",
    [["nowhere"], [".", "--mutations", "reverse"], [".", "--jobs", "0"], [".", "--limit", "0"], []],
)
def test_what_cannot_be_meant_is_refused_with_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, arguments).exit_code == 2


def test_a_folder_without_recordings_is_refused_with_2(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [str(tmp_path)])

    assert result.exit_code == 2
    assert "no recording" in result.output


def test_make_bench_quality_without_a_corpus_says_so_and_ends_with_2() -> None:
    ended = subprocess.run(
        ["make", "bench-quality"],  # noqa: S607 # whichever make there is
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "CORPUS"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 2
    assert "CORPUS is not set" in ended.stderr


def _run(corpus: Path, out: Path) -> dict[str, object]:
    asked = ["--model", "tiny.en", "--beam", "1", "--mutations", "silence-before-0.5,cut"]
    asked += ["--cache", str(out / "cache"), "--out", str(out), "--jobs", "2"]
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.quality", str(corpus), *asked],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert ended.returncode in (0, 1), ended.stderr
    (path,) = out.glob("quality-*.json")
    result: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    figures = result["figures"]
    assert isinstance(figures, list)
    assert (ended.returncode == 0) is all(figure["met"] for figure in figures)
    return result


def test_a_small_run_hears_every_variant_in_every_way_and_caches_the_bare_ones(
    tmp_path: Path,
) -> None:
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    for folder, name in (("en", "short"), ("pt", "portuguese")):
        (corpus / folder).mkdir(parents=True)
        for suffix in (".ogg", ".txt"):
            data = (ROOT / "tests" / "data" / name).with_suffix(suffix).read_bytes()
            (corpus / folder / f"{name}{suffix}").write_bytes(data)

    first = _run(corpus, out)
    stored = {path: path.stat().st_mtime_ns for path in (out / "cache").rglob("*.json")}
    again = _run(corpus, out)

    heard = first["heard"]
    assert isinstance(heard, list)
    # tiny.en knows no Portuguese, so that clip is left out.
    assert [(one["clip"], one["mutation"], one["way"]) for one in heard] == [
        ("en/short.ogg", mutation, way)
        for mutation in ("plain", "silence-before-0.5", "cut")
        for way in ("ours", "sequential", "batched-8")
    ]
    assert all("lovely" in one["text"] for one in heard)
    assert all(one["heard_language"] == "en" for one in heard)
    assert len(stored) == 6
    assert {path: path.stat().st_mtime_ns for path in (out / "cache").rglob("*.json")} == stored
    assert again["heard"] == heard
