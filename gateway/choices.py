"""What callers may choose, by the names the contracts have; what is unknown is refused."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from google.protobuf.duration import from_timedelta
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from gateway.settings import Settings
from ytcaption.v1 import job_pb2, media_pb2

MAX_WORD = 128
MAX_PROMPT = 1000
MAX_URL = 8000
DURATIONS = ("min_duration", "max_duration", "min_gap")

Tag = Annotated[str, Field(max_length=64)]
WordOfCaller = Annotated[str, Field(max_length=MAX_WORD)]
Seconds = Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]


def _lowered(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


class Strict(BaseModel):
    """A misspelt choice would be ignored silently otherwise."""

    model_config = ConfigDict(extra="forbid")


class CueRules(Strict):
    """Limits of cues; what is left out is as usual in the language."""

    max_lines: int | None = Field(default=None, ge=1, le=4)
    max_line_length: int | None = Field(default=None, ge=8, le=100)
    max_characters_per_second: float | None = Field(default=None, ge=1, le=100, allow_inf_nan=False)
    min_duration: Seconds | None = None
    max_duration: Seconds | None = None
    min_gap: Seconds | None = None


class Download(Strict):
    """How the site is asked."""

    user_agent: str | None = Field(default=None, max_length=MAX_PROMPT)
    max_bytes_per_second: int | None = Field(default=None, ge=1, lt=2**63)
    request_interval: Seconds | None = None
    proxy: str | None = Field(default=None, max_length=MAX_URL)


class Choices(Strict):
    """Everything about a job that is one value."""

    language: Tag | None = Field(default=None, description="BCP-47 tag of the speech, or auto.")
    language_out: Tag | None = Field(default=None, description="BCP-47 tag to translate into.")
    remove_noise: bool | None = None
    convert_to_mono: bool | None = None
    apply_highpass_filter: bool | None = None
    set_sample_rate_16k: bool | None = None
    isolate_vocals: bool | None = None
    word_timestamps: bool | None = None
    initial_prompt: str | None = Field(default=None, max_length=MAX_PROMPT)
    hotwords: str | None = Field(default=None, max_length=MAX_PROMPT)
    mixed_languages: bool | None = None
    beam_size: int | None = Field(default=None, ge=1, le=10)
    captions_policy: (
        Annotated[
            Literal["transcribe", "prefer_human"],
            BeforeValidator(_lowered),
            WithJsonSchema({"type": "string", "enum": ["transcribe", "prefer_human"]}),
        ]
        | None
    ) = None
    loudness_lufs: float | None = Field(default=None, ge=-70, le=-5, allow_inf_nan=False)


class Options(Choices):
    """What a job may be told."""

    cue_rules: CueRules | None = None
    download: Download | None = None


class Order(Strict):
    """What is said about a job besides its options."""

    request_id: WordOfCaller = Field(
        default="", description="Sending it twice gives the first job again."
    )
    correlation_id: WordOfCaller = Field(
        default="", description="In every log line; ours if empty."
    )
    caller: WordOfCaller = Field(default="", description="Who asks: callers take turns.")
    priority: Literal["high", "normal", "low"] = "normal"
    force: bool = Field(default=False, description="Run even if it was captioned lately.")
    webhook_url: str = Field(
        default="", max_length=MAX_URL, description="Told when it ends; nobody if empty."
    )


class PipelineRequest(Options, Order):
    """An address to be captioned."""

    youtube_url: str = Field(
        min_length=1, max_length=MAX_URL, description="Any supported http or https address."
    )


class UploadQuery(Choices, CueRules, Download, Order):
    """A file to be captioned; every option by its name."""

    file_name: str = Field(default="", max_length=1000, description="For people only.")


class CueQuery(CueRules):
    """Which cues."""

    translated: bool = Field(
        default=False, description="What was translated instead of what was said."
    )


class CaptionQuery(CueQuery):
    """Which captions, and how."""

    download: bool = Field(default=False, description="Have the browser save it.")
    word_cues: bool = Field(default=False, description="Give each word its time; only in VTT.")


def options_for(asked: Choices, settings: Settings) -> job_pb2.JobOptions:
    """What the caller chose; then what the operator would; the rest is the orchestrator's."""
    names = [name for name in Choices.model_fields if name != "captions_policy"]
    chosen = {name: value for name in names if (value := getattr(asked, name)) is not None}
    usual: dict[str, Any] = {
        "language": settings.default_language,
        "remove_noise": settings.default_remove_noise,
        "convert_to_mono": settings.default_convert_to_mono,
        "set_sample_rate_16k": settings.default_set_sample_rate_16k,
    }
    if chosen.get("mixed_languages"):  # excludes a language
        del usual["language"]
    options = job_pb2.JobOptions(**(usual | chosen))
    if asked.captions_policy:
        policy = f"CAPTIONS_POLICY_{asked.captions_policy.upper()}"
        options.captions_policy = job_pb2.CaptionsPolicy.Value(policy)
    _set_parts(asked, options)
    return options


def _set_parts(asked: Choices, options: job_pb2.JobOptions) -> None:
    """In JSON they are objects of their own; in a query they stand beside the rest."""
    rules = asked.cue_rules if isinstance(asked, Options) else asked
    if isinstance(rules, CueRules) and (limits := cue_rules(rules)).ListFields():
        options.cue_rules.CopyFrom(limits)
    download = asked.download if isinstance(asked, Options) else asked
    if isinstance(download, Download) and (wishes := _download(download)).ListFields():
        options.download.CopyFrom(wishes)


def cue_rules(asked: CueRules) -> media_pb2.CueRules:
    """The limits as the contracts have them."""
    given = {name: getattr(asked, name) for name in CueRules.model_fields}
    limits: dict[str, Any] = {
        name: from_timedelta(timedelta(seconds=value)) if name in DURATIONS else value
        for name, value in given.items()
        if value is not None
    }
    return media_pb2.CueRules(**limits)


def _download(asked: Download) -> media_pb2.DownloadOptions:
    names = ("user_agent", "max_bytes_per_second", "proxy")
    given = {name: value for name in names if (value := getattr(asked, name)) is not None}
    if asked.request_interval is not None:
        given["request_interval"] = from_timedelta(timedelta(seconds=asked.request_interval))
    return media_pb2.DownloadOptions(**given)


def priority_of(order: Order) -> "job_pb2.Priority.ValueType":
    """The priority as the contracts have it."""
    return job_pb2.Priority.Value(f"PRIORITY_{order.priority.upper()}")


def chosen_in(options: job_pb2.JobOptions) -> Options:
    """The options of a job, as callers name them."""
    given: dict[str, Any] = {
        field.name: value
        for field, value in options.ListFields()
        if field.name not in ("captions_policy", "cue_rules", "download")
    }
    if options.captions_policy:
        policy = job_pb2.CaptionsPolicy.Name(options.captions_policy)
        given["captions_policy"] = policy.removeprefix("CAPTIONS_POLICY_").lower()
    if options.HasField("cue_rules"):
        given["cue_rules"] = CueRules.model_construct(**_plain(options.cue_rules))
    if options.HasField("download"):
        given["download"] = Download.model_construct(**_plain(options.download))
    return Options.model_construct(**given)


def _plain(message: Any) -> dict[str, Any]:
    return {
        field.name: value.ToTimedelta().total_seconds() if field.message_type else value
        for field, value in message.ListFields()
    }
