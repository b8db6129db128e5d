"""Request models of job options, derived from the table of options; unknown keys are refused."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from gateway.settings import Settings, comma_separated
from mesh.job_options import (
    CUE_RULES,
    DOWNLOAD,
    JOB_OPTIONS,
    MAX_URL,
    NAMES,
    UNGROUPED,
    Kind,
    Option,
    grouped,
)
from mesh.messages import enum_names, fill, plain
from mesh.option_models import type_of, with_options
from ytcaption.v1 import job_pb2, media_pb2

MAX_IDENTIFIER = 128

CAPTION_FORMATS = enum_names(media_pb2.CaptionFormat.DESCRIPTOR)
if TYPE_CHECKING:
    CaptionFormat: TypeAlias = str
else:
    CaptionFormat = Literal[CAPTION_FORMATS]

Identifier = Annotated[str, Field(max_length=MAX_IDENTIFIER)]


def _lowered(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _split(value: Any) -> Any:
    """A list in a query or a form may be one text with commas, several texts, or both."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return value
    return [part for text in texts for part in comma_separated(text)]


def _value_type(option: Option) -> Any:
    """The option's type and bounds; a choice is taken in capitals too."""
    if option.kind is Kind.CHOICE:
        schema = {"type": "string", "enum": list(option.choices)}
        return Annotated[type_of(option), BeforeValidator(_lowered), WithJsonSchema(schema)]
    limits = {"ge": option.minimum, "le": option.maximum, "max_length": option.max_length}
    if option.kind is Kind.TEXTS:
        size = Field(max_length=option.max_items)
        return Annotated[type_of(option, **limits), size, BeforeValidator(_split)]
    if option.kind is Kind.INT64:
        limits["lt"] = 2**63
    return type_of(option, **limits)


class Strict(BaseModel):
    """A request whose unknown keys are refused: a misspelt option would be ignored otherwise."""

    model_config = ConfigDict(extra="forbid")


@with_options(CUE_RULES.options, _value_type)
class CueRules(Strict):
    """Limits of cues; those left out are the usual ones of the language."""


@with_options(DOWNLOAD.options, _value_type)
class Download(Strict):
    """How the site is asked."""


@with_options(UNGROUPED, _value_type)
class UngroupedOptions(Strict):
    """The job options that belong to no group."""


@with_options(JOB_OPTIONS, _value_type, {"cue_rules": CueRules, "download": Download})
class Options(UngroupedOptions):
    """The options of a job."""


class SubmissionFields(Strict):
    """The fields of a submission besides the options."""

    request_id: Identifier = Field(
        default="", description="Sending it twice gives the first job again."
    )
    correlation_id: Identifier = Field(
        default="", description="In every log line; made by the server if empty."
    )
    caller: Identifier = Field(default="", description="Name of the caller; callers take turns.")
    priority: Literal["high", "normal", "low"] = "normal"
    group: Identifier | None = Field(
        default=None,
        description="Group of the token to share it with; if absent the first of these, if empty "
        "none.",
    )
    force: bool = Field(default=False, description="Run even if it was captioned lately.")
    webhook_url: str = Field(
        default="", max_length=MAX_URL, description="Address notified when it ends; none if empty."
    )


class PipelineRequest(Options, SubmissionFields):
    """An address to be captioned."""

    youtube_url: str = Field(
        min_length=1, max_length=MAX_URL, description="Any supported http or https address."
    )


class UploadQuery(UngroupedOptions, CueRules, Download, SubmissionFields):
    """A file to be captioned; every option by its name."""

    file_name: str = Field(default="", max_length=1000, description="For people only.")


class CueQuery(CueRules):
    """Selects and shapes cues."""

    translated: bool = Field(default=False, description="The translation instead of the speech.")


class CaptionQuery(CueQuery):
    """Selects and shapes a caption file."""

    download: bool = Field(default=False, description="Have the browser save it.")
    word_cues: bool = Field(
        default=False, description="Give each word its time, in formats that can."
    )


def options_for(asked: UngroupedOptions, settings: Settings) -> job_pb2.JobOptions:
    """The caller's options, then the operator's defaults; the orchestrator fills in the rest."""
    chosen = asked.model_dump(include=set(NAMES), exclude_none=True)
    defaults = {
        option.name: getattr(settings, f"default_{option.name}", None) for option in UNGROUPED
    }
    if chosen.get("mixed_languages") or chosen.get("languages"):  # each excludes a language
        del defaults["language"]
    options = job_pb2.JobOptions()
    fill(options, defaults | grouped(chosen))
    return options


def cue_rules(asked: CueRules) -> media_pb2.CueRules:
    """The limits as the contract has them."""
    rules = media_pb2.CueRules()
    fill(rules, asked.model_dump(include={option.name for option in CUE_RULES.options}))
    return rules


def caption_format(name: CaptionFormat) -> "media_pb2.CaptionFormat.ValueType":
    """The caption format as the contract has it."""
    return media_pb2.CaptionFormat.Value(f"CAPTION_FORMAT_{name.upper()}")


def options_of(options: job_pb2.JobOptions) -> Options:
    """The options of a job as JSON; not validated, for other boundaries may allow more."""
    values = plain(options)
    for name, model in (("cue_rules", CueRules), ("download", Download)):
        if name in values:
            values[name] = model.model_construct(**values[name])
    return Options.model_construct(**values)
