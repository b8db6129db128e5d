"""`parametros` of the JSON form: the fields of a collection and of its options, in their names."""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
TEN_YEARS_SECONDS = 315_360_000

PORTUGUESE = {
    "period": "periodo",
    "from_date": "de",
    "to_date": "ate",
    "language": "idioma",
    "language_out": "traduzir_para",
    "max_members": "limite",
    "timeout": "tempo_limite",
    "max_in_flight": "maximo_simultaneo",
    "priority": "prioridade",
    "title": "titulo",
    "webhook_url": "webhook",
}
"""The other name some parameters go by; one of the two at a time."""

PRIORITIES = {"alta": "high", "normal": "normal", "baixa": "low"}

Seconds = Annotated[float, Field(ge=0, le=TEN_YEARS_SECONDS, allow_inf_nan=False)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=MAX_INT32)]
Day = Annotated[str, Field(pattern=r"^(\d{4}-\d{2}-\d{2})?$")]


class Strict(BaseModel):
    """A key nobody knows is an error, and so is a value of another type."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, validate_by_name=True, protected_namespaces=()
    )


def named(name: str, description: str) -> Any:
    """A parameter that may be left out, under its name or its Portuguese one."""
    other = PORTUGUESE.get(name)
    names = AliasChoices(name, other) if other else None
    return Field(default=None, validation_alias=names, description=description)


class CueRules(Strict):
    """Limits of cues; times are in seconds."""

    max_lines: Count | None = None
    max_line_length: Count | None = None
    max_characters_per_second: Number | None = None
    min_duration: Seconds | None = None
    max_duration: Seconds | None = None
    min_gap: Seconds | None = None


class Download(Strict):
    """How the site is asked."""

    user_agent: str | None = None
    max_bytes_per_second: Annotated[int, Field(ge=0, le=MAX_INT64)] | None = None
    request_interval: Seconds | None = None
    proxy: str | None = None


class Options(Strict):
    """What a job may be told: JobOptions."""

    language: str | None = named("language", "BCP-47 tag of the speech, or auto.")
    language_out: str | None = named("language_out", "BCP-47 tag to translate into.")
    remove_noise: bool | None = None
    convert_to_mono: bool | None = None
    apply_highpass_filter: bool | None = None
    set_sample_rate_16k: bool | None = None
    isolate_vocals: bool | None = None
    word_timestamps: bool | None = None
    initial_prompt: str | None = None
    beam_size: Count | None = None
    captions_policy: Literal["transcribe", "prefer_human"] | None = None
    loudness_lufs: Number | None = None
    cue_rules: CueRules | None = None
    hotwords: str | None = None
    mixed_languages: bool | None = None
    download: Download | None = None


class Parameters(Options):
    """What a collection may be told, and its options beside it."""

    timeout: Seconds | None = named("timeout", "Seconds; what is missing then is timed out.")
    max_in_flight: Count | None = named("max_in_flight", "Members in flight at once.")
    from_date: Day | None = named("from_date", "First day of publication, YYYY-MM-DD.")
    to_date: Day | None = named("to_date", "Last day of publication, YYYY-MM-DD.")
    period: str | None = named("period", "A year, month or day instead: 2025, 2025-10.")
    max_members: Count | None = named("max_members", "At most this many members.")
    title: str | None = named("title", "What it is called in reports.")
    webhook_url: str | None = named("webhook_url", "Address told when it is gathered.")
    request_id: str | None = named("request_id", "Sending it twice starts one collection.")
    caller: str | None = named("caller", "Who asks.")
    priority: Literal["high", "normal", "low", "alta", "baixa"] | None = named(
        "priority", "Whether its members go before others."
    )
    force: bool | None = named("force", "Run even what was captioned lately.")


def _show_both_names(schema: dict[str, Any]) -> None:
    known = schema["properties"]
    for name, other in PORTUGUESE.items():
        known[other] = {**known[name], "description": f"The same as {name}."}
    schema["allOf"] = [{"not": {"required": list(pair)}} for pair in PORTUGUESE.items()]


class GivenParameters(Parameters):
    """As they come in: under either name."""

    model_config = ConfigDict(json_schema_extra=_show_both_names)
