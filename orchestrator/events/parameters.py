"""JSON models of `parametros` (collection fields and job options), and their conversion."""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Discriminator, Field, Tag

from mesh.job_options import (
    CUE_RULES,
    DOWNLOAD,
    JOB_OPTIONS,
    MAX_URL_BYTES,
    UNGROUPED,
    Kind,
    Option,
)
from mesh.messages import fill, plain
from mesh.option_models import type_of, with_options
from orchestrator.events.source_types import PLACES
from ytcaption.v1 import collection_service_pb2, event_pb2, job_pb2

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
TEN_YEARS_SECONDS = 315_360_000

PORTUGUESE = {
    "period": "periodo",
    "from_date": "de",
    "to_date": "ate",
    **{option.name: option.portuguese for option in UNGROUPED if option.portuguese},
    "max_members": "limite",
    "timeout": "tempo_limite",
    "max_in_flight": "maximo_simultaneo",
    "priority": "prioridade",
    "title": "titulo",
    "webhook_url": "webhook",
}
"""The Portuguese name of each parameter that has one; an event uses one of the two."""

NAME_TAGS: dict[type, str] = {str: "<name>", list: "<names>"}
"""Union tags, which cannot be keys: left out of the path in a validation error."""

PRIORITIES = {"alta": "high", "normal": "normal", "baixa": "low"}

Seconds = Annotated[float, Field(ge=0, le=TEN_YEARS_SECONDS, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=MAX_INT32)]
Day = Annotated[str, Field(pattern=r"^(\d{4}-\d{2}-\d{2})?$")]


class Strict(BaseModel):
    """Refuses unknown keys and values of another type."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, validate_by_name=True, protected_namespaces=()
    )


def named(name: str, description: str) -> Any:
    """An optional parameter, accepted under its English or its Portuguese name."""
    other = PORTUGUESE.get(name)
    names = AliasChoices(name, other) if other else None
    return Field(default=None, validation_alias=names, description=description)


def _value_type(option: Option) -> Any:
    """Bounds of the field in the contract; the request's validation checks the real ranges."""
    if option.kind is Kind.SECONDS:
        return type_of(option, ge=0, le=TEN_YEARS_SECONDS)
    if option.kind in (Kind.INT, Kind.INT64):
        return type_of(option, ge=0, le=MAX_INT32 if option.kind is Kind.INT else MAX_INT64)
    return type_of(option)


@with_options(CUE_RULES.options, _value_type)
class CueRules(Strict):
    """Limits of cues; times are in seconds."""


@with_options(DOWNLOAD.options, _value_type)
class Download(Strict):
    """Options of the requests to the site."""


@with_options(JOB_OPTIONS, _value_type, {"cue_rules": CueRules, "download": Download}, aliases=True)
class Options(Strict):
    """The options of a job: JobOptions."""


class Parameters(Options):
    """The fields of a collection, and its options beside them."""

    timeout: Seconds | None = named("timeout", "Seconds after which missing members are timed out.")
    max_in_flight: Count | None = named("max_in_flight", "Members in flight at once.")
    from_date: Day | None = named("from_date", "First day of publication, YYYY-MM-DD.")
    to_date: Day | None = named("to_date", "Last day of publication, YYYY-MM-DD.")
    period: str | None = named(
        "period", "A year, month or day, or two with a slash: 2025-10, 2025-10/2025-12."
    )
    max_members: Count | None = named("max_members", "At most this many members.")
    title: str | None = named("title", "Its title in reports.")
    webhook_url: str | None = named("webhook_url", "Address notified when it is gathered.")
    request_id: str | None = named("request_id", "Sending it twice starts one collection.")
    caller: str | None = named("caller", "Name of the caller.")
    priority: Literal["high", "normal", "low", "alta", "baixa"] | None = named(
        "priority", "Whether its members go before others."
    )
    force: bool | None = named("force", "Run even members that were captioned lately.")


def _place(description: str) -> Any:
    return Field(default=None, description=f"{description} Only with a source type as `fonte`.")


def _show_both_names(schema: dict[str, Any]) -> None:
    known = schema["properties"]
    for name, other in PORTUGUESE.items():
        known[other] = {**known[name], "description": f"The same as {name}."}
    schema["allOf"] = [{"not": {"required": list(pair)}} for pair in PORTUGUESE.items()]


Name = Annotated[str, Field(min_length=1, max_length=MAX_URL_BYTES)]
Names = Annotated[
    Annotated[Name, Tag("<name>")] | Annotated[list[Name], Field(min_length=1), Tag("<names>")],
    Discriminator(lambda value: NAME_TAGS.get(type(value))),
]


class GivenParameters(Parameters):
    """Incoming parameters, under either name; of a source type also what it collects."""

    model_config = ConfigDict(json_schema_extra=_show_both_names)

    canal: Names | None = _place("Channels: the name, @handle, id or address of each.")
    playlist: Names | None = _place("Playlists: the id or address of each.")
    busca: Names | None = _place("Words to search for.")
    url: Names | None = _place("Addresses of any kind, which are listed.")
    video: Names | None = _place("Recordings: the id or address of each.")

    @property
    def places(self) -> dict[str, list[str]]:
        """What the source type shall collect, by parameter."""
        given = {name: getattr(self, name) for name in PLACES}
        return {
            name: [value] if isinstance(value, str) else value
            for name, value in given.items()
            if value is not None
        }


def request_of(given: Parameters) -> collection_service_pb2.CreateCollectionRequest:
    """The request with these parameters; the event names its sources elsewhere."""
    values = given.model_dump(exclude_none=True, exclude=set(PLACES))
    options = {name: values.pop(name) for name in Options.model_fields if name in values}
    if "priority" in values:
        values["priority"] = PRIORITIES.get(values["priority"], values["priority"])
    request = collection_service_pb2.CreateCollectionRequest()
    fill(request, values | {"options": options})
    return request


def options_of(options: job_pb2.JobOptions) -> Options:
    """The options as JSON."""
    return Options.model_validate(_public(plain(options)))


def parameters_of(start: event_pb2.StartCollection) -> Parameters:
    """The parameters of a collection as JSON; without its sources."""
    values = {**plain(start), **plain(start.options)}
    for elsewhere in ("sources", "addresses", "options", "source_specs", "executors"):
        values.pop(elsewhere, None)
    return Parameters.model_validate(_public(values))


def _public(values: dict[str, Any]) -> dict[str, Any]:
    """Drops what may hold a password or concerns only the sender: events are public."""
    for private in ("webhook_url", "request_id", "owner", "group"):
        values.pop(private, None)
    values.get("download", {}).pop("proxy", None)
    return values
