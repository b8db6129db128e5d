"""A translation model run by CTranslate2, with its tokenizer: NLLB, M2M100, Opus-MT."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import ctranslate2
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer

from mesh.errors import UnavailableError
from mesh.reasons import Reason
from transcriber.translation.language_tokens import read_language_tokens
from transcriber.translation.translator import Translate

_SHARED = ("sentencepiece.bpe.model", "sentencepiece.model", "spiece.model")
_APART = ("source.spm", "target.spm")
_JSON = "tokenizer.json"
END = "</s>"
MAX_TOKENS = 256
"""More tokens than one segment of speech needs."""


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


class CTranslator:
    """One loaded model; deterministic, so that a resumed job gives the same text."""

    def __init__(
        self, folder: Path, languages: str, device: str, compute_type: str, threads: int
    ) -> None:
        self.model = folder.name
        self.is_loaded = True
        try:
            self._tokenizer = open_tokenizer(folder)
            self._language_tokens = read_language_tokens(_vocabulary(folder), languages)
            self._ends_itself = bool(_config(folder).get("add_source_eos"))
            self._model = ctranslate2.Translator(
                str(folder), device=device, compute_type=compute_type, intra_threads=threads
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise UnavailableError(
                f"the translation model {folder} does not load on {device} as {compute_type}: "
                f"{error}",
                reason=Reason.MODEL_UNAVAILABLE,
            ) from error
        self.sources = frozenset(self._language_tokens.sources)
        self.targets = self._language_tokens.targets

    def ensure_loaded(self) -> None:
        """Does nothing: the constructor loads."""

    def translate(self, command: Translate, abandoned: Callable[[], bool]) -> list[str]:
        """One translation for each text."""
        tokens = self._language_tokens
        before = [*tokens.target_tokens[command.target], *tokens.sources[command.source]]
        after = [] if self._ends_itself else [END]
        forced_prefix = list(tokens.forced_prefix[command.target])
        results = self._model.translate_batch(
            [[*before, *self._tokenizer.encode(text), *after] for text in command.texts],
            target_prefix=[forced_prefix] * len(command.texts) if forced_prefix else None,
            beam_size=command.beam_size,
            max_decoding_length=MAX_TOKENS,
            disable_unk=True,
        )
        return [
            self._tokenizer.decode(found.hypotheses[0][len(forced_prefix) :]) for found in results
        ]

    def close(self) -> None:
        """Does nothing: memory goes with the last reference."""


def _config(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return found


def _vocabulary(folder: Path) -> frozenset[str]:
    """The source vocabulary: language tokens come before the text."""
    for name in ("shared_vocabulary", "source_vocabulary"):
        if (folder / f"{name}.json").is_file():
            return frozenset(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))
        if (folder / f"{name}.txt").is_file():
            return frozenset((folder / f"{name}.txt").read_text(encoding="utf-8").split("\n"))
    raise UnavailableError(
        f"{folder} holds no CTranslate2 translation model", reason=Reason.MODEL_UNAVAILABLE
    )
