"""Weights of whisper.cpp from those of CTranslate2: `python -m benchmarks.asr_ggml base base.bin`.

whisper.cpp reads one file: the sizes of the model, mel filters, vocabulary, then all tensors under
the names that OpenAI gave them. CTranslate2 keeps the same numbers under other names, and the
projections of an attention joined to one matrix.
"""

import json
import mmap
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click
import numpy as np
from faster_whisper.feature_extractor import FeatureExtractor
from numpy.typing import NDArray

from transcriber.model.weights import locate
from transcriber.settings import Settings

Array = NDArray[Any]

CTRANSLATE2_VERSION = 6
CTRANSLATE2_TYPES = ("<f4", "i1", "<i2", "<i4", "<f2")
"""By number; those after them are unknown to numpy."""

MAGIC = 0x67676D6C
F32, F16, Q8_0 = 0, 1, 8
"""Types of a tensor in the file."""
MOSTLY_F16, MOSTLY_Q8_0 = 1, 2007
"""Types of a file; the thousands of a quantised one are the version of quantisation."""
BLOCK = 32
"""Numbers that share a scale in Q8_0."""
Q8_0_BLOCK = np.dtype([("scale", "<f2"), ("values", "i1", (BLOCK,))])

RATE, WINDOW = 16_000, 400
"""Of the mel filters: samples a second, and samples of a Fourier transform."""

TENSORS = {
    "encoder/conv1/weight": "encoder.conv1.weight",
    "encoder/conv1/bias": "encoder.conv1.bias",
    "encoder/conv2/weight": "encoder.conv2.weight",
    "encoder/conv2/bias": "encoder.conv2.bias",
    "encoder/position_encodings/encodings": "encoder.positional_embedding",
    "encoder/layer_norm/gamma": "encoder.ln_post.weight",
    "encoder/layer_norm/beta": "encoder.ln_post.bias",
    "decoder/embeddings/weight": "decoder.token_embedding.weight",
    "decoder/position_encodings/encodings": "decoder.positional_embedding",
    "decoder/layer_norm/gamma": "decoder.ln.weight",
    "decoder/layer_norm/beta": "decoder.ln.bias",
}
LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/(.+)/(weight|bias|gamma|beta)")
PARTS = {
    "self_attention/layer_norm": ("attn_ln",),
    "self_attention/linear_0": ("attn.query", "attn.key", "attn.value"),
    "self_attention/linear_1": ("attn.out",),
    "attention/layer_norm": ("cross_attn_ln",),
    "attention/linear_0": ("cross_attn.query",),
    "attention/linear_1": ("cross_attn.key", "cross_attn.value"),
    "attention/linear_2": ("cross_attn.out",),
    "ffn/layer_norm": ("mlp_ln",),
    "ffn/linear_0": ("mlp.0",),
    "ffn/linear_1": ("mlp.2",),
}
"""Parts of a layer; several names: their rows follow one another in one matrix."""
KINDS = {"gamma": "weight", "beta": "bias", "weight": "weight", "bias": "bias"}
IN_F32 = ("encoder.positional_embedding", "decoder.positional_embedding")
"""Matrices that whisper.cpp takes as 32-bit floats."""


def read_variables(path: Path) -> dict[str, Array]:
    """All variables of a model.bin of CTranslate2, by name; nothing is copied."""
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    reader = _Reader(data)
    version, spec = reader.number("<I"), reader.text()
    if version != CTRANSLATE2_VERSION or spec != "WhisperSpec":
        raise ValueError(f"{path}: {spec}, version {version}, is no Whisper model we can read")
    reader.number("<I")  # the revision of the spec
    return dict(reader.variable() for _ in range(reader.number("<I")))


class _Reader:
    """Reads one value after another."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def number(self, kind: str) -> int:
        """An integer."""
        (value,) = struct.unpack_from(kind, self._data, self._at)
        self._at += struct.calcsize(kind)
        return int(value)

    def text(self) -> str:
        """A string; it ends with a zero."""
        length = self.number("<H")
        self._at += length
        return self._data[self._at - length : self._at - 1].decode()

    def variable(self) -> tuple[str, Array]:
        """A name with its array."""
        name = self.text()
        shape = [self.number("<I") for _ in range(self.number("<B"))]
        kind, size = self.number("<B"), self.number("<I")
        if kind >= len(CTRANSLATE2_TYPES):
            raise ValueError(f"{name} has type {kind}, which numpy does not have")
        dtype = np.dtype(CTRANSLATE2_TYPES[kind])
        array = np.frombuffer(self._data, dtype, size // dtype.itemsize, self._at)
        self._at += size
        return name, array.reshape(shape)


def named_tensors(variables: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """The tensors as whisper.cpp names and divides them."""
    for name, array in variables.items():
        if not array.ndim:
            continue  # a setting
        if array.dtype.kind != "f":
            raise ValueError(f"{name} is quantised; only floats can be converted")
        if layer := LAYER.fullmatch(name):
            yield from _of_layer(layer, array)
        elif name in TENSORS:
            yield TENSORS[name], array
        else:
            raise ValueError(f"whisper.cpp has no place for {name}")


def _of_layer(layer: re.Match[str], array: Array) -> Iterator[tuple[str, Array]]:
    stack, number, part, kind = layer.groups()
    names = PARTS[part]
    for name, share in zip(names, np.split(array, len(names)), strict=True):
        if name.endswith(".key") and kind == "bias":
            # Whisper's keys have no bias. Anything but zeros here is another order of projections.
            if share.any():
                raise ValueError(f"{layer[0]} has a bias for keys")
            continue
        yield f"{stack}.blocks.{number}.{name}.{KINDS[kind]}", share


def read_tokens(folder: Path) -> list[bytes]:
    """The bytes of each token of text; whisper.cpp adds the special ones behind them."""
    file = folder / "vocabulary.json"
    if file.is_file():
        tokens = json.loads(file.read_text(encoding="utf-8"))
    else:
        tokens = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
    byte_of = _byte_of_sign()
    return [bytes(byte_of[sign] for sign in t) for t in tokens[: tokens.index("<|endoftext|>")]]


def _byte_of_sign() -> dict[str, int]:
    """GPT-2's alphabet: a byte is written as its sign in Latin-1 if that can be seen."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(0x100) if byte not in visible]
    signs = [*visible, *range(0x100, 0x100 + len(hidden))]
    return dict(zip(map(chr, signs), [*visible, *hidden], strict=True))


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a model, in the order of the file."""

    vocabulary: int
    audio_context: int
    audio_state: int
    audio_heads: int
    audio_layers: int
    text_context: int
    text_state: int
    text_heads: int
    text_layers: int
    mels: int

    @classmethod
    def of(cls, variables: Mapping[str, Array]) -> "Sizes":
        """As the shapes of the tensors tell."""
        audio_context, audio_state = variables["encoder/position_encodings/encodings"].shape
        text_context, text_state = variables["decoder/position_encodings/encodings"].shape
        return cls(
            vocabulary=len(variables["decoder/embeddings/weight"]),
            audio_context=audio_context,
            audio_state=audio_state,
            audio_heads=int(variables["encoder/num_heads"]),
            audio_layers=_count_layers(variables, "encoder"),
            text_context=text_context,
            text_state=text_state,
            text_heads=int(variables["decoder/num_heads"]),
            text_layers=_count_layers(variables, "decoder"),
            mels=variables["encoder/conv1/weight"].shape[1],
        )


def _count_layers(variables: Mapping[str, Array], stack: str) -> int:
    return sum(
        re.fullmatch(rf"{stack}/layer_\d+/ffn/linear_0/weight", name) is not None
        for name in variables
    )


def write_ggml(folder: Path, target: Path, *, quantised: bool = False) -> None:
    """Writes 16-bit floats or, quantised, Q8_0: eight bits, and a scale for every 32 numbers."""
    variables = read_variables(folder / "model.bin")
    sizes = Sizes.of(variables)
    with target.open("wb") as file:
        _write_numbers(file, MAGIC, *(getattr(sizes, name) for name in Sizes.__slots__))
        _write_numbers(file, MOSTLY_Q8_0 if quantised else MOSTLY_F16)
        filters = FeatureExtractor.get_mel_filters(RATE, WINDOW, sizes.mels).astype("<f4")
        _write_numbers(file, *filters.shape)
        file.write(filters.tobytes())
        tokens = read_tokens(folder)
        _write_numbers(file, len(tokens))
        for token in tokens:
            _write_numbers(file, len(token))
            file.write(token)
        for name, array in named_tensors(variables):
            _write_tensor(file, name, array, quantised=quantised)


def _write_numbers(file: IO[bytes], *numbers: int) -> None:
    file.write(struct.pack(f"<{len(numbers)}i", *numbers))


def _write_tensor(file: IO[bytes], name: str, array: Array, *, quantised: bool) -> None:
    if re.fullmatch(r"encoder\.conv\d\.bias", name):
        array = array[:, np.newaxis]
        kind, data = F32, array.astype("<f4")
    elif array.ndim == 1 or name in IN_F32:
        kind, data = F32, array.astype("<f4")
    elif quantised and array.ndim == 2:
        kind, data = Q8_0, quantise(array)
    else:
        kind, data = F16, array.astype("<f2")
    encoded = name.encode()
    _write_numbers(file, array.ndim, len(encoded), kind, *reversed(array.shape))
    file.write(encoded)
    file.write(data.tobytes())


def quantise(matrix: Array) -> Array:
    """Blocks of Q8_0: a number is its eight bits times the scale of its block."""
    if matrix.shape[-1] % BLOCK:
        raise ValueError(f"rows of {matrix.shape[-1]} do not divide into blocks of {BLOCK}")
    numbers = matrix.astype(np.float32).reshape(-1, BLOCK)
    scales = np.abs(numbers).max(axis=1) / np.float32(127)
    safe = np.where(scales == 0, np.float32(1), scales)
    blocks = np.empty(len(numbers), Q8_0_BLOCK)
    blocks["scale"] = scales
    blocks["values"] = np.rint(numbers / safe[:, np.newaxis])
    return blocks


@click.command(help=__doc__)
@click.argument("model")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--quantised", is_flag=True, help="Q8_0 instead of 16-bit floats.")
def main(model: str, target: Path, quantised: bool) -> None:
    """Writes the file."""
    folder = locate(model, Settings().cache_dir, "cpu").folder
    try:
        write_ggml(folder, target, quantised=quantised)
    except ValueError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
