"""A real CTranslate2 translation model, small enough to write its weights by hand.

One layer. Each decoder position looks at the source token in the same place, and the projection
picks the word that means the same in the wanted language: a dictionary, as a Transformer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.specs import TransformerSpec
from sentencepiece import SentencePieceTrainer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from transcriber.translation.translator import Translate

MEANINGS = [
    {"en": "The", "de": "Das", "fr": "Le", "pt": "O"},
    {"en": "weather", "de": "Wetter", "fr": "temps", "pt": "tempo"},
    {"en": "is", "de": "ist", "fr": "est", "pt": "está"},
    {"en": "lovely", "de": "herrlich", "fr": "magnifique", "pt": "lindo"},
    {"en": "this", "de": "diesen", "fr": "ce", "pt": "nesta"},
    {"en": "morning.", "de": "Morgen.", "fr": "matin.", "pt": "manhã."},
]
ENGLISH = "The weather is lovely this morning."
GERMAN = "Das Wetter ist herrlich diesen Morgen."
FRENCH = "Le temps est magnifique ce matin."
TO_GERMAN = Translate((ENGLISH,), "en", "de", 5)
FLORES = {"en": "eng_Latn", "de": "deu_Latn", "fr": "fra_Latn", "pt": "por_Latn"}
SPECIAL = ["<unk>", "<s>", "</s>"]
PLACES = 24
SHARP = 30.0


@dataclass(frozen=True, slots=True)
class Kind:
    """Language tokens of a model family."""

    names: dict[str, str]
    only_target: str = ""


NLLB = Kind(FLORES)
M2M100 = Kind({code: f"__{code}__" for code in FLORES})
OPUS_TO_GERMAN = Kind({}, "de")


def write_model(folder: Path, kind: Kind, vocabulary: str = "sentencepiece") -> Path:
    """Writes a model folder as an operator would have it."""
    folder.mkdir(parents=True)
    tokens = [*SPECIAL, *kind.names.values(), *("▁" + word for word in _words())]
    spec = _spec(tokens, kind)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    if vocabulary == "tokenizer.json":
        _write_tokenizer(folder / "tokenizer.json", tokens)
    elif kind.names:
        (folder / "sentencepiece.bpe.model").write_bytes(_sentencepieces())
    else:
        for name in ("source.spm", "target.spm"):
            (folder / name).write_bytes(_sentencepieces())
    return folder


def patient() -> bool:
    """The call is never abandoned."""
    return False


def _words() -> list[str]:
    return [word for meaning in MEANINGS for word in meaning.values()]


def _sentencepieces() -> bytes:
    written = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(_words())]),
        model_writer=written,
        model_type="word",
        vocab_size=len(_words()) + 3,
        character_coverage=1.0,
        minloglevel=2,
    )
    return written.getvalue()


def _write_tokenizer(file: Path, tokens: Sequence[str]) -> None:
    numbers = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="<unk>"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.save(str(file))


class _Layout:
    """Layout of a vector: what each range of dimensions stands for."""

    def __init__(self, tokens: int) -> None:
        self.token = slice(0, tokens)
        self.place = slice(tokens, tokens + PLACES)
        self.read = slice(tokens + PLACES, 2 * tokens + PLACES)
        self.wanted = slice(2 * tokens + PLACES, 3 * tokens + PLACES)
        self.width = 3 * tokens + PLACES


def _spec(tokens: Sequence[str], kind: Kind) -> TransformerSpec:
    layout = _Layout(len(tokens))
    spec = TransformerSpec.from_config(num_layers=1, num_heads=1, pre_norm=True)
    for half in (spec.encoder, spec.decoder):
        embeddings = half.embeddings[0] if isinstance(half.embeddings, list) else half.embeddings
        embeddings.weight = _embedding(layout, len(tokens))
        half.scale_embeddings = False
        half.position_encodings.encodings = _places(layout)
        _set_norm(half.layer_norm, layout)
        _set_feed_forward(half.layer[0].ffn, layout)
    _set_self_attention(spec.encoder.layer[0].self_attention, layout, is_used=False)
    _set_self_attention(spec.decoder.layer[0].self_attention, layout, is_used=bool(kind.names))
    _set_attention(spec.decoder.layer[0].attention, layout)
    spec.decoder.projection.weight, spec.decoder.projection.bias = _projection(tokens, kind, layout)
    spec.register_source_vocabulary(list(tokens))
    spec.register_target_vocabulary(list(tokens))
    spec.config.decoder_start_token = "</s>"  # noqa: S105
    return spec


def _embedding(layout: _Layout, tokens: int) -> Any:
    weight = np.zeros((tokens, layout.width), np.float32)
    weight[:, layout.token] = np.eye(tokens)
    return weight


def _places(layout: _Layout) -> Any:
    encodings = np.zeros((PLACES, layout.width), np.float32)
    encodings[:, layout.place] = np.eye(PLACES)
    return encodings


def _set_norm(norm: Any, layout: _Layout) -> None:
    norm.gamma, norm.beta = (
        np.ones(layout.width, np.float32),
        np.zeros(layout.width, np.float32),
    )


def _set_linear(linear: Any, weight: Any, bias: Any = None) -> None:
    linear.weight = np.asarray(weight, np.float32)
    linear.bias = np.zeros(len(weight), np.float32) if bias is None else bias


def _set_feed_forward(ffn: Any, layout: _Layout) -> None:
    _set_norm(ffn.layer_norm, layout)
    nothing = np.zeros((layout.width, layout.width))
    _set_linear(ffn.linear_0, nothing)
    _set_linear(ffn.linear_1, nothing)


def _copy(width: int, source: slice, target: slice, strength: float = 1.0) -> Any:
    weight = np.zeros((width, width), np.float32)
    weight[target, source] = strength * np.eye(source.stop - source.start)
    return weight


def _set_self_attention(attention: Any, layout: _Layout, *, is_used: bool) -> None:
    """The decoder looks at its second token: the name of the language that is wanted."""
    width = layout.width
    _set_norm(attention.layer_norm, layout)
    query_bias = np.zeros(3 * width, np.float32)
    query_bias[layout.place.start + 1] = SHARP
    inputs = np.concatenate(
        [
            np.zeros((width, width)),
            _copy(width, layout.place, layout.place, SHARP),
            _copy(width, layout.token, layout.wanted),
        ]
    )
    _set_linear(attention.linear[0], inputs, query_bias)
    _set_linear(attention.linear[1], np.eye(width) if is_used else np.zeros((width, width)))


def _set_attention(attention: Any, layout: _Layout) -> None:
    """Each place looks at the same place of the source."""
    width = layout.width
    _set_norm(attention.layer_norm, layout)
    at_place = _copy(width, layout.place, layout.place, SHARP)
    _set_linear(attention.linear[0], at_place)
    _set_linear(
        attention.linear[1], np.concatenate([at_place, _copy(width, layout.token, layout.read)])
    )
    _set_linear(attention.linear[2], np.eye(width))


def _projection(tokens: Sequence[str], kind: Kind, layout: _Layout) -> tuple[Any, Any]:
    number = {token: at for at, token in enumerate(tokens)}
    weight = np.zeros((len(tokens), layout.width), np.float32)
    bias = np.zeros(len(tokens), np.float32)
    for meaning in MEANINGS:
        for language, word in meaning.items():
            row = number["▁" + word]
            for same in meaning.values():
                weight[row, layout.read.start + number["▁" + same]] = 1
            if kind.names:
                weight[row, layout.wanted.start + number[kind.names[language]]] = 1
            elif language == kind.only_target:
                bias[row] = SHARP
    weight[number["</s>"], layout.read.start + number["</s>"]] = 2
    bias[number["</s>"]] = 0 if kind.names else SHARP
    for part in (layout.read, layout.wanted):
        # What a layer norm takes from every element must not count.
        weight[:, part] -= weight[:, part].mean(axis=1, keepdims=True)
    return weight * SHARP, bias
