"""What an owner may use, over HTTP."""

import httpx2


async def test_what_is_used_is_shown_also_where_nothing_is_limited(
    http: httpx2.AsyncClient, finished_job: dict[str, object]
) -> None:
    shown = (await http.get("/quota")).json()
    found = {one["limit"]: one for one in shown["quotas"]}

    assert shown["owner"] == ""
    assert found["stored_bytes"]["used"] > 0
    assert {one["maximum"] for one in found.values()} == {None}
    assert found["webhooks"] == {
        "limit": "webhooks",
        "maximum": None,
        "used": 0,
        "overridden": False,
    }
