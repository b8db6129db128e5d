"""Collectors and executors over HTTP."""

from typing import Any

import httpx2
import pytest

from tests.support.fake_orchestrator import FakeAdmin, serving
from tests.support.http import running_gateway


async def test_types_are_registered_listed_and_taken_back() -> None:
    admin = FakeAdmin()
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    given = {
        "type": "blog",
        "role": "collector",
        "transport": "queue",
        "max_in_flight": 3,
        "timeout_seconds": 90,
        "summary": "Blogs",
        "parameters_schema": schema,
    }
    async with (
        serving(admin=admin) as address,
        running_gateway(orchestrator=address) as http,
    ):
        made = await http.post("/admin/types", json=given)
        listed = (await http.get("/admin/types")).json()
        gone = await http.delete("/admin/types/collector/blog")
        again = await http.delete("/admin/types/collector/blog")

    assert made.status_code == 200
    assert made.json() == {
        **given,
        "timeout_seconds": 90.0,
        "addresses": [],
        "healthy": True,
        "queued": 0,
        "running": 0,
        "removable": True,
    }
    assert listed["types"] == [made.json()]
    assert (gone.json(), again.json()) == ({"removed": True}, {"removed": False})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"type": "blog", "role": "painter"},
        {"type": "blog", "role": "collector", "transport": "built_in"},
        {"type": "blog", "role": "collector", "addresses": "a:1"},
        {"type": "blog", "role": "collector", "timeout_seconds": 0},
        {"type": "x" * 41, "role": "collector"},
    ],
)
async def test_a_registration_that_cannot_be_is_refused(given: dict[str, Any]) -> None:
    admin = FakeAdmin()
    async with (
        serving(admin=admin) as address,
        running_gateway(orchestrator=address) as http,
    ):
        answer = await http.post("/admin/types", json=given)

    assert answer.status_code == 422
    assert answer.json()["reason"] == "REQUEST_INVALID"
    assert not admin.types


async def test_a_real_mesh_lists_its_own_and_names_what_is_wrong(http: httpx2.AsyncClient) -> None:
    listed = (await http.get("/admin/types")).json()["types"]
    own = {(one["role"], one["type"]): one for one in listed}
    away = await http.post(
        "/admin/types",
        json={"type": "blog", "role": "collector", "addresses": ["not an address"]},
    )
    built_in = await http.delete("/admin/types/collector/youtube")

    assert own["collector", "youtube"]["transport"] == "built_in"
    assert "canal" in own["collector", "youtube"]["parameters_schema"]["properties"]
    assert own["executor", "relatorio"]["removable"] is False
    assert (away.status_code, away.json()["reason"]) == (400, "REQUEST_INVALID")
    assert (built_in.status_code, built_in.json()["reason"]) == (400, "REQUEST_INVALID")
