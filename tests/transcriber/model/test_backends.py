"""Backends: the fastest that hears the same is kept for this machine, and used from then on."""

from pathlib import Path

import pytest

from transcriber.decoder import Weights
from transcriber.model import backends
from transcriber.model.backends import (
    DEFAULT,
    REFERENCE,
    Backend,
    Measured,
    choose,
    keep,
    measure,
    measure_all,
    recorded,
)
from transcriber.model.loading import select
from transcriber.model.weights import locate
from transcriber.speech.batching import MAX_BATCH

MKL = Backend("int8", {"CT2_USE_MKL": "1"})


@pytest.mark.parametrize(
    ("seconds", "megabytes", "text", "best"),
    [
        (0.5, 700, "same", MKL),
        (0.95, 500, "same", DEFAULT),
        (1.08, 300, "same", MKL),
        (1.08, 480, "same", DEFAULT),
        (1.3, 300, "same", DEFAULT),
        (0.5, 300, "other", DEFAULT),
    ],
    ids=[
        "clearly faster",
        "hardly faster",
        "about as fast, clearly smaller",
        "about as fast, hardly smaller",
        "smaller but slower",
        "faster but mishears",
    ],
)
def test_the_default_is_left_only_for_a_backend_that_is_clearly_better_and_as_good(
    seconds: float, megabytes: float, text: str, best: Backend
) -> None:
    usual = [Measured(REFERENCE, 2, 700, "same"), Measured(DEFAULT, 1, 500, "same")]

    assert choose([*usual, Measured(MKL, seconds, megabytes, text)]) == best


def test_a_default_that_mishears_is_replaced() -> None:
    measured = [Measured(DEFAULT, 1, 500, "other"), Measured(REFERENCE, 2, 700, "same")]

    assert choose(measured) == REFERENCE


def test_a_word_that_rounding_changes_does_not_count_as_misheard() -> None:
    words = [f"word{number}" for number in range(20)]
    found = Measured(MKL, 0.5, 500, " ".join([*words[:-1], "other"]))
    measured = [Measured(backend, 1, 500, " ".join(words)) for backend in (DEFAULT, REFERENCE)]

    assert choose([*measured, found]) == MKL


def test_without_a_reference_the_default_stays() -> None:
    assert choose([Measured(MKL, 0.1, 300, "same"), Measured(DEFAULT, 1, 500, "same")]) == DEFAULT


def test_a_record_holds_for_its_model_only(tmp_path: Path) -> None:
    assert recorded(tmp_path, "base") is None

    keep(MKL, tmp_path, "base")

    assert recorded(tmp_path, "base") == MKL
    assert recorded(tmp_path, "small") is None


@pytest.mark.parametrize("text", ["", "[]", '{"for": 1}', '{"for": null, "backend": 1}'])
def test_an_unreadable_record_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "backend.json").write_text(text)

    assert recorded(tmp_path, "base") is None


def test_auto_takes_the_recorded_compute_type_and_a_named_one_wins(tmp_path: Path) -> None:
    model = str(tmp_path)
    keep(Backend("float32", batch=2), tmp_path, model)

    measured = select(model, tmp_path, "cpu", "auto")
    named = select(model, tmp_path, "cpu", "int8_float32")

    assert (measured.compute_type, measured.max_batch) == ("float32", 2)
    assert (named.compute_type, named.max_batch) == ("int8_float32", MAX_BATCH)


def test_the_self_test_hears_its_sentence_and_refuses_what_the_machine_cannot_do(
    weights_cache: Path,
) -> None:
    weights = locate("tiny.en", weights_cache, "cpu")

    found = measure(DEFAULT, weights)

    assert found is not None
    assert found.text == (
        "we will walk down to the river and look at the boats "
        "in the evening we come home and eat bread and cheese with our friends"
    )
    assert found.seconds > 0
    assert found.megabytes > 50
    assert measure(Backend("no_such_type"), weights) is None


def test_a_candidate_that_takes_too_long_is_killed(weights_cache: Path) -> None:
    assert measure(DEFAULT, locate("tiny.en", weights_cache, "cpu"), seconds=0.1) is None


def test_a_backend_much_slower_with_the_default_type_is_not_tried_with_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[Backend] = []
    patience: list[float] = []

    def scripted(backend: Backend, _: object, seconds: float = backends.SECONDS) -> Measured | None:
        tried.append(backend)
        patience.append(seconds)
        return None if backend.environment else Measured(backend, 1, 500, "same")

    monkeypatch.setattr(backends, "measure", scripted)

    found = measure_all(Weights("some", tmp_path), lambda *_: None)

    assert [one.backend for one in found] == tried[:-1]
    assert tried[:2] == [DEFAULT, REFERENCE]
    assert len(tried) == len(set(map(str, tried))) == 5
    assert patience == [backends.SECONDS] * 2 + [backends.LEAST_SECONDS] * 3
