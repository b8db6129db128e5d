"""What the load benchmark measured: figures with their targets, as a table and as JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number."""

    name: str
    value: float
    unit: str
    target: float | None = None
    better: Literal["more", "less"] = "more"

    @property
    def met(self) -> bool:
        """Whether it is as good as it should be; a figure without a target always is."""
        if self.target is None:
            return True
        return self.value >= self.target if self.better == "more" else self.value <= self.target


def share_of(figures: Sequence[Figure], name: str, share: float) -> float | None:
    """A target relative to what was measured in the same run; None if it was left out."""
    found = next((figure.value for figure in figures if figure.name == name), None)
    return None if found is None else found * share


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(name: str, seconds: Sequence[float], target: float | None = None) -> list[Figure]:
    """The middle and the 99th percentile of times, in milliseconds; the target is the latter's."""
    return [
        Figure(f"{name}, p50", percentile(seconds, 0.5) * 1000, "ms"),
        Figure(f"{name}, p99", percentile(seconds, 0.99) * 1000, "ms", target, "less"),
    ]


def table(figures: Sequence[Figure]) -> str:
    """One line a figure."""
    width = max(len(figure.name) for figure in figures)
    lines = (
        f"{figure.name:<{width}}  {figure.value:>10,.1f} {figure.unit:<5} {_judged(figure)}"
        for figure in figures
    )
    return "\n".join(line.rstrip() for line in lines)


def _judged(figure: Figure) -> str:
    if figure.target is None:
        return ""
    sign = "≥" if figure.better == "more" else "≤"
    return f" {sign} {round(figure.target, 1):g} {'met' if figure.met else 'MISSED'}"


def to_json(figures: Sequence[Figure]) -> list[dict[str, object]]:
    """For the result file."""
    return [{**asdict(figure), "met": figure.met} for figure in figures]
