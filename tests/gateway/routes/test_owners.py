"""Export, erasure and retention of one owner over HTTP."""

import io
import json
import zipfile
from hashlib import sha256
from typing import Any

import httpx2
import pytest

from tests.support.fake_orchestrator import FakeAdmin, serving
from tests.support.http import running_gateway


async def test_an_export_is_a_zip_with_a_manifest(
    http: httpx2.AsyncClient, finished_job: dict[str, Any]
) -> None:
    answer = await http.get("/owners/export")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/zip"
    assert "attachment" in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as found:
        assert found.testzip() is None
        manifest = json.loads(found.read("manifest.json"))
        for file in manifest["files"]:
            assert sha256(found.read(file["name"])).hexdigest() == file["sha256"]
        assert f"jobs/{finished_job['job_id']}/captions.srt" in found.namelist()


@pytest.mark.parametrize(
    "given", [{}, {"owner": "ana"}, {"owner": "ana", "confirmation": "ERASE bia"}]
)
async def test_an_erasure_over_http_needs_its_confirmation(
    http: httpx2.AsyncClient, given: dict[str, str]
) -> None:
    refused = await http.delete("/owners", params=given)

    assert refused.status_code == 400
    assert refused.json()["reason"] in ("CONFIRMATION_MISSING", "REQUEST_INVALID")


async def test_an_erasure_over_http_answers_at_its_end_and_retention_is_set() -> None:
    admin = FakeAdmin()
    admin.remarks = ["a token stays"]
    confirmed = {"owner": "ana/b", "confirmation": "ERASE ana/b"}
    async with (
        serving(admin=admin) as address,
        running_gateway(orchestrator=address) as http,
    ):
        erased = await http.delete("/owners", params=confirmed)
        kept = await http.put("/owners/retention", params={"owner": "ana/b", "days": 2})
        listed = await http.get("/owners/retention")
        usual = await http.put("/owners/retention", params={"owner": "ana/b"})
        wrong = await http.put("/owners/retention", params={"owner": "ana/b", "days": -1})

    assert erased.json()["removed"]["files"] == 3
    assert erased.json()["remarks"] == ["a token stays"]
    assert admin.erased[0].owner == "ana/b"
    assert kept.json() == {"owner": "ana/b", "days": 2.0}
    assert listed.json() == {"retentions": [{"owner": "ana/b", "days": 2.0}]}
    assert usual.json() == {"owner": "ana/b", "days": None}
    assert wrong.status_code == 422
