"""Weights of CTranslate2 as whisper.cpp reads them."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ctranslate2.specs import WhisperSpec
from ctranslate2.specs.model_spec import index_spec
from numpy.typing import NDArray

from benchmarks.asr_ggml import BLOCK, Q8_0_BLOCK, quantise, read_tokens, write_ggml

STATE, HEADS, MELS, FRAMES, TEXT = 64, 2, 80, 12, 9
TOKENS = ["!", "Ġthe", "Ċ", "åľº", "", "<|endoftext|>", "<|startoftranscript|>", "<|0.00|>"]
FILE_TYPES: dict[int, np.dtype[Any]] = {0: np.dtype("<f4"), 1: np.dtype("<f2"), 8: Q8_0_BLOCK}
Array = NDArray[Any]
LINEARS = {
    "self_attention/linear_0": (3 * STATE, STATE),
    "self_attention/linear_1": (STATE, STATE),
    "ffn/linear_0": (4 * STATE, STATE),
    "ffn/linear_1": (STATE, 4 * STATE),
}
CROSS_LINEARS = {
    "attention/linear_0": (STATE, STATE),
    "attention/linear_1": (2 * STATE, STATE),
    "attention/linear_2": (STATE, STATE),
}
SHAPES = {
    "encoder/conv1": (STATE, MELS, 3),
    "encoder/conv2": (STATE, STATE, 3),
    **{f"encoder/layer_0/{name}": shape for name, shape in LINEARS.items()},
    **{f"decoder/layer_0/{name}": shape for name, shape in (LINEARS | CROSS_LINEARS).items()},
}
NORMS = (
    "encoder/layer_norm",
    "encoder/layer_0/self_attention/layer_norm",
    "encoder/layer_0/ffn/layer_norm",
    "decoder/layer_norm",
    "decoder/layer_0/self_attention/layer_norm",
    "decoder/layer_0/attention/layer_norm",
    "decoder/layer_0/ffn/layer_norm",
)


def small_model() -> dict[str, Array]:
    """The variables of a Whisper of one layer on each side; all numbers differ."""
    rng = np.random.default_rng(1)
    found = {f"{name}/weight": rng.standard_normal(shape) for name, shape in SHAPES.items()}
    found |= {f"{name}/bias": rng.standard_normal(shape[0]) for name, shape in SHAPES.items()}
    found |= {
        f"{name}/{kind}": rng.standard_normal(STATE) for name in NORMS for kind in ("gamma", "beta")
    }
    found["encoder/position_encodings/encodings"] = rng.standard_normal((FRAMES, STATE))
    found["decoder/position_encodings/encodings"] = rng.standard_normal((TEXT, STATE))
    found["decoder/embeddings/weight"] = rng.standard_normal((len(TOKENS), STATE))
    for stack in ("encoder", "decoder"):
        found[f"{stack}/layer_0/self_attention/linear_0/bias"][STATE : 2 * STATE] = 0
    found["decoder/layer_0/attention/linear_1/bias"][:STATE] = 0
    return {name: array.astype(np.float16) for name, array in found.items()}


def save(variables: dict[str, Array], folder: Path, quantization: str | None = None) -> Path:
    """The folder, with these variables as CTranslate2 itself writes them."""
    spec = WhisperSpec(1, HEADS, 1, HEADS)
    for name, array in variables.items():
        scope, _, field = name.rpartition("/")
        setattr(index_spec(spec, scope), field, array)
    spec.decoder.projection.weight = variables["decoder/embeddings/weight"]
    spec.register_vocabulary(TOKENS)
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(folder))
    (folder / "vocabulary.txt").write_text("\n".join(TOKENS), encoding="utf-8")
    (folder / "vocabulary.json").unlink()
    return folder


class Ggml:
    """What a file of whisper.cpp holds."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        self._at = 0
        self.magic, *self.sizes = self._numbers(12)
        rows, columns = self._numbers(2)
        self.filters = np.frombuffer(self._bytes(4 * rows * columns), "<f4").reshape(rows, columns)
        self.tokens = [self._bytes(*self._numbers(1)) for _ in range(*self._numbers(1))]
        self.tensors: dict[str, Array] = {}
        while self._at < len(self._data):
            self._read_tensor()

    def _read_tensor(self) -> None:
        count, length, kind = self._numbers(3)
        shape = self._numbers(count)[::-1]
        name = self._bytes(length).decode()
        dtype = FILE_TYPES[kind]
        numbers = BLOCK if dtype == Q8_0_BLOCK else 1
        data = self._bytes(int(np.prod(shape)) // numbers * dtype.itemsize)
        values = np.frombuffer(data, dtype)
        if dtype == Q8_0_BLOCK:
            values = values["scale"][:, np.newaxis].astype(np.float32) * values["values"]
        self.tensors[name] = values.reshape(shape)

    def _bytes(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def _numbers(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}i", self._bytes(4 * count))


@pytest.fixture(scope="module")
def variables() -> dict[str, Array]:
    return small_model()


@pytest.fixture(scope="module")
def folder(variables: dict[str, Array], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(variables, tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def written(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Ggml:
    target = tmp_path_factory.mktemp("ggml") / "small.bin"
    write_ggml(folder, target)
    return Ggml(target)


def test_the_file_begins_with_the_sizes_of_the_model(written: Ggml) -> None:
    audio, text = [FRAMES, STATE, HEADS, 1], [TEXT, STATE, HEADS, 1]

    assert written.magic == 0x67676D6C
    assert written.sizes == [len(TOKENS), *audio, *text, MELS, 1]


def test_the_mel_filters_are_those_of_whisper(written: Ggml) -> None:
    assert written.filters.shape == (MELS, 201)
    assert (written.filters >= 0).all()
    # Known from OpenAI's mel_filters.npz: the first band's peak.
    assert written.filters[0, 1] == pytest.approx(0.02486259, abs=1e-6)


def test_tokens_are_the_bytes_of_text_without_special_tokens(written: Ggml, folder: Path) -> None:
    assert written.tokens == [b"!", b" the", b"\n", "场".encode(), b""]
    assert read_tokens(folder) == written.tokens


def test_every_number_but_the_bias_of_keys_is_in_the_file_once(
    written: Ggml, variables: dict[str, Array]
) -> None:
    count = sum(array.size for array in variables.values())
    # Two self-attentions and one over the audio; their keys have no bias.
    assert sum(tensor.size for tensor in written.tensors.values()) == count - 3 * STATE
    assert not [name for name in written.tensors if name.endswith("key.bias")]


@pytest.mark.parametrize(
    ("names", "variable"),
    [
        (
            ["attn.query.weight", "attn.key.weight", "attn.value.weight"],
            "self_attention/linear_0/weight",
        ),
        (["cross_attn.query.weight"], "attention/linear_0/weight"),
        (["cross_attn.key.weight", "cross_attn.value.weight"], "attention/linear_1/weight"),
        (["cross_attn.out.bias"], "attention/linear_2/bias"),
        (["attn_ln.weight"], "self_attention/layer_norm/gamma"),
        (["cross_attn_ln.bias"], "attention/layer_norm/beta"),
        (["mlp.2.weight"], "ffn/linear_1/weight"),
    ],
)
def test_a_layer_has_the_rows_of_ctranslate2_under_openais_names(
    written: Ggml, variables: dict[str, Array], names: list[str], variable: str
) -> None:
    rows = np.concatenate([written.tensors[f"decoder.blocks.0.{name}"] for name in names])

    assert np.array_equal(rows, variables[f"decoder/layer_0/{variable}"])


def test_matrices_are_16_bit_floats_and_all_else_is_32(written: Ggml) -> None:
    small = [name for name, tensor in written.tensors.items() if tensor.dtype == np.float32]

    assert all(name.endswith((".bias", "positional_embedding")) or "ln" in name for name in small)
    assert written.tensors["encoder.conv1.bias"].shape == (STATE, 1)
    assert written.tensors["encoder.conv1.weight"].dtype == np.float16
    assert written.tensors["decoder.token_embedding.weight"].dtype == np.float16


def test_q8_0_keeps_every_number_within_half_a_step_of_its_block() -> None:
    matrix = np.random.default_rng(2).standard_normal((3, 2 * BLOCK)).astype(np.float16)
    matrix[1] = 0

    blocks = quantise(matrix)

    steps = blocks["scale"].astype(np.float32)[:, np.newaxis]
    error = np.abs(steps * blocks["values"] - matrix.astype(np.float32).reshape(-1, BLOCK))
    # The scale itself is rounded to 16 bits: 127 steps of it can be off by a sixteenth of one.
    assert (error <= 0.57 * steps).all()
    assert (blocks["values"][2:4] == 0).all()


def test_a_quantised_file_says_so_and_keeps_convolutions_as_floats(
    folder: Path, tmp_path: Path, written: Ggml
) -> None:
    write_ggml(folder, tmp_path / "small.bin", quantised=True)

    found = Ggml(tmp_path / "small.bin")
    assert found.sizes[-1] == 2007
    conv, value = "encoder.conv2.weight", "decoder.blocks.0.attn.value.weight"
    assert np.array_equal(found.tensors[conv], written.tensors[conv])
    assert np.allclose(found.tensors[value], written.tensors[value], atol=0.03)


def test_keys_with_a_bias_are_refused(tmp_path: Path) -> None:
    model = small_model()
    model["decoder/layer_0/attention/linear_1/bias"][0] = 1

    with pytest.raises(ValueError, match="bias for keys"):
        write_ggml(save(model, tmp_path), tmp_path / "small.bin")


def test_quantised_weights_of_ctranslate2_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is quantised"):
        write_ggml(save(small_model(), tmp_path, "int8"), tmp_path / "small.bin")


def test_what_is_no_model_of_ctranslate2_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(struct.pack("<IH", 5, 2) + b"x\0" + bytes(64))

    with pytest.raises(ValueError, match="no Whisper model"):
        write_ggml(tmp_path, tmp_path / "small.bin")
