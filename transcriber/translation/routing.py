"""Translation routing: which model translates a recording into the requested language."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum, auto

from mesh.errors import UnsupportedError
from mesh.languages import primary, tag_of
from mesh.reasons import Reason
from transcriber.decoder import Decoder
from transcriber.engine import Request, Segment
from transcriber.translation.translator import ENGLISH, Models, Translate


class Route(Enum):
    """How a window is translated."""

    NONE = auto()
    FROM_TEXT = auto()
    """By the translation model."""
    FROM_SPEECH = auto()
    """By the speech model, which decodes the window a second time."""


class TranslationRouter:
    """Chooses the route for each language; refuses impossible requests at once."""

    def __init__(self, request: Request, models: Models) -> None:
        self._decoder: Decoder = models.decoder
        self._translator = models.translator
        self._is_mixed = request.mixed_languages
        self.target = primary(request.language_out) if request.language_out else ""
        if self.target:
            self._refuse_target(models)
        if self.target and request.language:
            self.route(primary(request.language))

    @property
    def model(self) -> str:
        """Name of the translation model in use; empty if there is none or it is not needed."""
        if self._translator is None or self.target not in self._translator.targets:
            return ""
        return self._translator.model

    def route(self, language: str) -> Route:
        """The route for speech in that language.

        In a recording of mixed languages, untranslatable speech stays untranslated; otherwise the
        request is refused.
        """
        if not self.target or language == self.target:
            return Route.NONE
        reader = self._translator
        if reader and language in reader.sources and self.target in reader.targets:
            return Route.FROM_TEXT
        if self._decoder.translates and self.target in ENGLISH:
            return Route.FROM_SPEECH
        if self._is_mixed:
            return Route.NONE
        raise UnsupportedError(
            f"{tag_of(language)!r} cannot be translated into {tag_of(self.target)!r} here",
            reason=Reason.TRANSLATION_UNSUPPORTED,
        )

    def translate(
        self,
        segments: Sequence[Segment],
        language: str,
        beam_size: int,
        abandoned: Callable[[], bool],
    ) -> list[Segment]:
        """Translates each segment by itself, so each keeps its times."""
        if not segments or abandoned():
            return list(segments)
        assert self._translator is not None  # noqa: S101 # route() checked it
        texts = tuple(segment.text for segment in segments)
        found = self._translator.translate(
            Translate(texts, language, self.target, beam_size), abandoned
        )
        return [
            replace(segment, translation=text.strip())
            for segment, text in zip(segments, found, strict=True)
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
