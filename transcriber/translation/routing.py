"""Which way the text of a recording gets into the language that was asked for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum, auto

from mesh.errors import UnsupportedError
from mesh.languages import primary, tag_of
from mesh.reasons import Reason
from transcriber.decoder import Decoder
from transcriber.engine import Request, Spoken
from transcriber.translating import ENGLISH, Models, Translate


class Way(Enum):
    """How a window is translated."""

    NOT_AT_ALL = auto()
    FROM_TEXT = auto()
    """By the translation model."""
    FROM_SPEECH = auto()
    """By the speech model, which listens a second time."""


class Interpreter:
    """Decides for each language; refuses at once what is known to be impossible."""

    def __init__(self, request: Request, models: Models) -> None:
        self._decoder: Decoder = models.decoder
        self._translator = models.translator
        self._is_mixed = request.mixed_languages
        self.target = primary(request.language_out) if request.language_out else ""
        if self.target:
            self._refuse_target(models)
        if self.target and request.language:
            self.way(primary(request.language))

    @property
    def model(self) -> str:
        """The translation model that is needed; empty if there is none, or none is."""
        if self._translator is None or self.target not in self._translator.targets:
            return ""
        return self._translator.model

    def way(self, language: str) -> Way:
        """For what was said in that language.

        Of a recording that mixes languages what cannot be translated stays as it was said; else
        the caller would wait for something that never comes, and is told so.
        """
        if not self.target or language == self.target:
            return Way.NOT_AT_ALL
        reader = self._translator
        if reader and language in reader.sources and self.target in reader.targets:
            return Way.FROM_TEXT
        if self._decoder.translates and self.target in ENGLISH:
            return Way.FROM_SPEECH
        if self._is_mixed:
            return Way.NOT_AT_ALL
        raise UnsupportedError(
            f"{tag_of(language)!r} cannot be translated into {tag_of(self.target)!r} here",
            reason=Reason.TRANSLATION_UNSUPPORTED,
        )

    def translate(
        self, spoken: Sequence[Spoken], language: str, beam_size: int, abandoned: Callable[[], bool]
    ) -> list[Spoken]:
        """Each piece by itself: so each keeps its times."""
        if not spoken or abandoned():
            return list(spoken)
        assert self._translator is not None  # noqa: S101 # way() saw to it
        texts = tuple(piece.text for piece in spoken)
        found = self._translator.translate(
            Translate(texts, language, self.target, beam_size), abandoned
        )
        return [
            replace(piece, translation=text.strip())
            for piece, text in zip(spoken, found, strict=True)
        ]

    def _refuse_target(self, models: Models) -> None:
        targets = {code for ability in models.translations for code in ability.targets}
        if self.target not in targets:
            known = ", ".join(sorted(map(tag_of, targets)))
            raise UnsupportedError(
                f"speech cannot be translated into {tag_of(self.target)!r} here"
                + (f", only into {known}" if known else ": no model that is loaded translates"),
                reason=Reason.TRANSLATION_UNSUPPORTED,
            )
