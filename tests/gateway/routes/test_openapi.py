"""Responses of the real gateway conform to its OpenAPI description (schemathesis)."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from gateway.app import create_app
from gateway.settings import Settings
from tests.conftest import RealMesh
from tests.support.site import Site

EXAMPLES = 8
NOT_CALLED = ["/admin/factory-reset", "/jobs/events", "/collections/events"]
"""The first deletes everything; the others are endless streams."""
SCHEMA = schemathesis.openapi.from_dict(create_app(Settings()).openapi())
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    """One connection for the thousands of requests."""
    with requests.Session() as opened:
        opened.trust_env = False
        yield opened


@SCHEMA.exclude(path=NOT_CALLED).parametrize()
@settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_response_conforms_to_the_description(
    case: "schemathesis.Case[Any]", real_mesh: RealMesh, site: Site, session: requests.Session
) -> None:
    _keep_to_loopback(case, site)

    case.call_and_validate(base_url=real_mesh.http, session=session, checks=CHECKS)


def _keep_to_loopback(case: Any, site: Site) -> None:
    """Points generated URLs and webhooks at the test site."""
    for given in (case.body, case.query):
        if isinstance(given, dict) and str(given.get("webhook_url", "")).startswith("http"):
            given["webhook_url"] = f"{site.url}/webhook"
    if not isinstance(case.body, dict):
        return
    url = f"{site.url}/files/described.ogg"
    if str(case.body.get("youtube_url", "")).startswith("http"):
        case.body["youtube_url"] = url
    for several in ("sources", "addresses"):
        given = case.body.get(several)
        if isinstance(given, list):
            case.body[several] = [url if isinstance(one, str) and one else one for one in given]


def test_every_route_is_described_with_its_problems() -> None:
    described = create_app(Settings()).openapi()

    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            responses = operation["responses"]
            assert {"400", "422", "429", "503"} <= responses.keys(), (method, path)
            problem = responses["422"]["content"]["application/problem+json"]["schema"]
            assert problem == {"$ref": "#/components/schemas/Problem"}
            assert "HTTPValidationError" not in str(operation)
    assert "Problem" in described["components"]["schemas"]
