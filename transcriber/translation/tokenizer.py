"""Tokenizers of translation models: text to tokens and back."""

from collections.abc import Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer

from mesh.errors import UnavailableError
from mesh.reasons import Reason

_SHARED = ("sentencepiece.bpe.model", "sentencepiece.model", "spiece.model")
_APART = ("source.spm", "target.spm")
_JSON = "tokenizer.json"


class SentencePieceTokenizer:
    """SentencePiece files, as NLLB, M2M100 and Opus-MT have them."""

    def __init__(self, source: Path, target: Path) -> None:
        self._source = SentencePieceProcessor(model_file=str(source))
        self._target = SentencePieceProcessor(model_file=str(target))

    def encode(self, text: str) -> list[str]:
        """Without language tokens and end mark."""
        tokens: list[str] = self._source.encode(text, out_type=str)
        return tokens

    def decode(self, tokens: Sequence[str]) -> str:
        """Plain text."""
        return str(self._target.decode_pieces(list(tokens)))


class JsonTokenizer:
    """A tokenizer.json of the `tokenizers` library."""

    def __init__(self, file: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(file))

    def encode(self, text: str) -> list[str]:
        """Without language tokens and end mark."""
        tokens: list[str] = self._tokenizer.encode(text, add_special_tokens=False).tokens
        return tokens

    def decode(self, tokens: Sequence[str]) -> str:
        """Plain text."""
        numbers = [self._tokenizer.token_to_id(token) for token in tokens]
        return str(self._tokenizer.decode([number for number in numbers if number is not None]))


def open_tokenizer(folder: Path) -> SentencePieceTokenizer | JsonTokenizer:
    """Opens the tokenizer files beside the weights."""
    if all((folder / name).is_file() for name in _APART):
        return SentencePieceTokenizer(*(folder / name for name in _APART))
    for name in _SHARED:
        if (folder / name).is_file():
            return SentencePieceTokenizer(folder / name, folder / name)
    if (folder / _JSON).is_file():
        return JsonTokenizer(folder / _JSON)
    raise UnavailableError(
        f"there is no vocabulary in {folder}: it needs {' and '.join(_APART)}, or one of "
        + ", ".join((*_SHARED, _JSON)),
        reason=Reason.MODEL_UNAVAILABLE,
    )
