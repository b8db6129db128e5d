"""Responses of the real gateway conform to its OpenAPI description (schemathesis)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from gateway.app import create_app
from gateway.settings import Settings
from tests.conftest import RealMesh, guarded_mesh
from tests.support.site import Site

EXAMPLES = 8
NOT_CALLED = ["/admin/factory-reset", "/jobs/events", "/collections/events"]
"""The first deletes everything; the others are endless streams."""
OPEN = ("/health", "/live")
"""Answered to anyone, login or not."""
SCHEMA = schemathesis.openapi.from_dict(create_app(Settings()).openapi())
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@dataclass(frozen=True, slots=True)
class Target:
    """A gateway, and one connection for the thousands of requests to it."""

    url: str
    session: requests.Session
    may_call: bool


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesh]:
    with guarded_mesh(tmp_path_factory.mktemp("guarded")) as running:
        yield running


@pytest.fixture(scope="module", params=["without a login", "with a token", "without a token"])
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Without a login everyone may do everything; with one, strangers almost nothing."""
    has_login = request.param != "without a login"
    mesh: RealMesh = request.getfixturevalue("guarded" if has_login else "real_mesh")
    with requests.Session() as opened:
        opened.trust_env = False
        if request.param == "with a token":
            opened.headers["Authorization"] = f"Bearer {mesh.token}"
        yield Target(mesh.http, opened, request.param != "without a token")


@SCHEMA.exclude(path=NOT_CALLED).parametrize()
@settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_response_conforms_to_the_description(
    case: "schemathesis.Case[Any]", target: Target, site: Site
) -> None:
    _keep_to_loopback(case, site)

    answer = case.call_and_validate(base_url=target.url, session=target.session, checks=CHECKS)

    assert target.may_call or case.path in OPEN or 400 <= answer.status_code < 500
    assert answer.status_code != 401 or not target.may_call


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
