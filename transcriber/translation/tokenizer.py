"""Text to the pieces a translation model reads, and back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer

from mesh.errors import UnavailableError
from mesh.reasons import Reason

_SHARED = ("sentencepiece.bpe.model", "sentencepiece.model", "spiece.model")
_APART = ("source.spm", "target.spm")
_JSON = "tokenizer.json"


class Pieces(Protocol):
    """The vocabulary a model was trained with."""

    def split(self, text: str) -> list[str]:
        """No names of languages, no mark at the end."""
        ...

    def join(self, pieces: Sequence[str]) -> str:
        """Plain text again."""
        ...


class SentencePieces:
    """As NLLB, M2M100 and Opus-MT come."""

    def __init__(self, source: Path, target: Path) -> None:
        self._source = SentencePieceProcessor(model_file=str(source))
        self._target = SentencePieceProcessor(model_file=str(target))

    def split(self, text: str) -> list[str]:
        """No names of languages, no mark at the end."""
        pieces: list[str] = self._source.encode(text, out_type=str)
        return pieces

    def join(self, pieces: Sequence[str]) -> str:
        """Plain text again."""
        return str(self._target.decode_pieces(list(pieces)))


class JsonPieces:
    """As the `tokenizers` library writes them."""

    def __init__(self, file: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(file))

    def split(self, text: str) -> list[str]:
        """No names of languages, no mark at the end."""
        tokens: list[str] = self._tokenizer.encode(text, add_special_tokens=False).tokens
        return tokens

    def join(self, pieces: Sequence[str]) -> str:
        """Plain text again."""
        numbers = [self._tokenizer.token_to_id(piece) for piece in pieces]
        return str(self._tokenizer.decode([number for number in numbers if number is not None]))


def open_pieces(folder: Path) -> Pieces:
    """Whichever of the known files is beside the weights."""
    if all((folder / name).is_file() for name in _APART):
        return SentencePieces(*(folder / name for name in _APART))
    for name in _SHARED:
        if (folder / name).is_file():
            return SentencePieces(folder / name, folder / name)
    if (folder / _JSON).is_file():
        return JsonPieces(folder / _JSON)
    raise UnavailableError(
        f"there is no vocabulary in {folder}: it needs {' and '.join(_APART)}, or one of "
        + ", ".join((*_SHARED, _JSON)),
        reason=Reason.MODEL_UNAVAILABLE,
    )
