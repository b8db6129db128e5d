"""Backends: the fastest that hears the same is kept for this machine, and used from then on."""

from pathlib import Path

import pytest

from transcriber.model.backends import (
    DEFAULT,
    REFERENCE,
    Backend,
    Measured,
    choose,
    keep,
    measure,
    recorded,
)
from transcriber.model.loading import select
from transcriber.model.weights import locate

MKL = Backend("int8", {"CT2_USE_MKL": "1"})


@pytest.mark.parametrize(
    ("seconds", "text", "best"),
    [(0.5, "same", MKL), (0.97, "same", DEFAULT), (0.5, "other", DEFAULT)],
    ids=["clearly faster", "hardly faster", "faster but mishears"],
)
def test_the_default_is_left_only_for_a_backend_that_is_faster_and_as_good(
    seconds: float, text: str, best: Backend
) -> None:
    usual = [Measured(REFERENCE, 2, "same"), Measured(DEFAULT, 1, "same")]

    assert choose([*usual, Measured(MKL, seconds, text)]) == best


def test_a_default_that_mishears_is_replaced() -> None:
    assert choose([Measured(DEFAULT, 1, "other"), Measured(REFERENCE, 2, "same")]) == REFERENCE


def test_without_a_reference_the_default_stays() -> None:
    assert choose([Measured(MKL, 0.1, "same"), Measured(DEFAULT, 1, "same")]) == DEFAULT


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
    keep(Backend("float32"), tmp_path, model)

    assert select(model, tmp_path, "cpu", "auto").compute_type == "float32"
    assert select(model, tmp_path, "cpu", "int8_float32").compute_type == "int8_float32"


def test_the_self_test_hears_its_sentence_and_refuses_what_the_machine_cannot_do(
    weights_cache: Path,
) -> None:
    weights = locate("tiny.en", weights_cache, "cpu")

    found = measure(DEFAULT, weights)

    assert found is not None
    assert found.text == "the weather is lovely this morning"
    assert found.seconds > 0
    assert measure(Backend("no_such_type"), weights) is None
