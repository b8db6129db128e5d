"""docs/metrics.md names every metric with its kind and its labels."""

import sys

import pytest
from prometheus_client.metrics import MetricWrapperBase

import gateway.http.observability
import mesh.metrics
import orchestrator.metrics
from tests.docs.pages import code, page, rows

MODULES = {
    "Orchestrator": orchestrator.metrics,
    "Every gRPC service": mesh.metrics,
    "Gateway": gateway.http.observability,
}


@pytest.mark.parametrize("heading", MODULES)
def test_the_table_is_that_of_the_code(heading: str) -> None:
    section = page("docs/metrics.md").split(f"## {heading}\n")[1].split("\n## ")[0]
    documented = {
        (code(row[0]), row[1], tuple(code(label) for label in row[2].split(", ") if label))
        for row in rows(section)
    }

    assert documented == {
        (one._name, one._type, tuple(one._labelnames)) for one in _metrics(MODULES[heading])
    }


def test_no_other_module_has_metrics() -> None:
    ours = {
        name
        for name, module in sys.modules.items()
        if name.split(".")[0] in ("mesh", "orchestrator", "gateway", "downloader", "normalizer")
        and any(one.__module__.startswith("prometheus_client") for one in _metrics(module))
    }
    known = {module.__name__ for module in MODULES.values()}

    named = {id(one) for module in MODULES.values() for one in _metrics(module)}
    assert known <= ours
    assert all(id(one) in named for name in ours for one in _metrics(sys.modules[name]))


def _metrics(module: object) -> list[MetricWrapperBase]:
    return [one for one in vars(module).values() if isinstance(one, MetricWrapperBase)]
