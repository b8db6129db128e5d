"""Pydantic models derived from the table of job options."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, Field, create_model

from mesh.job_options import Group, Kind, Option

ModelT = TypeVar("ModelT", bound=BaseModel)

_TYPES: dict[Kind, Any] = {
    Kind.BOOL: bool,
    Kind.TEXT: str,
    Kind.INT: int,
    Kind.INT64: int,
    Kind.NUMBER: float,
    Kind.SECONDS: float,
}


def type_of(option: Option, **limits: Any) -> Any:
    """The type of an option's value, within the limits given; numbers are finite.

    Of a list, the limits are those of each entry.
    """
    if option.kind is Kind.CHOICE:
        return Literal[option.choices]
    if option.kind is Kind.TEXTS:
        return list[_within(str, limits)]  # type: ignore[misc] # derived from the table
    if option.kind in (Kind.NUMBER, Kind.SECONDS):
        limits["allow_inf_nan"] = False
    return _within(_TYPES[option.kind], limits)


def _within(kind: Any, limits: Mapping[str, Any]) -> Any:
    known = {name: limit for name, limit in limits.items() if limit is not None}
    return Annotated[kind, Field(**known)] if known else kind


def with_options(
    entries: Sequence[Option | Group],
    value_type: Callable[[Option], Any],
    groups: Mapping[str, type[BaseModel]] | None = None,
    *,
    aliases: bool = False,
) -> Callable[[type[ModelT]], type[ModelT]]:
    """Adds a field for each entry to a model; every field may be left out.

    `groups` are the models of the groups among the entries. With `aliases`, an option may also be
    given under its Portuguese name.
    """
    fields: dict[str, Any] = {}
    for entry in entries:
        if isinstance(entry, Group):
            fields[entry.name] = ((groups or {})[entry.name] | None, None)
            continue
        names = AliasChoices(entry.name, entry.portuguese) if aliases and entry.portuguese else None
        field = Field(default=None, validation_alias=names, description=entry.help)
        fields[entry.name] = (value_type(entry) | None, field)

    def derive(model: type[ModelT]) -> type[ModelT]:
        return create_model(
            model.__name__,
            __base__=model,
            __module__=model.__module__,
            __doc__=model.__doc__,
            **fields,
        )

    return derive
