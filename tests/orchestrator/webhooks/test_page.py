"""docs/webhooks.md says how signatures are checked, and when attempts are made: as it is."""

import asyncio
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.settings import Settings, webhook_keys
from orchestrator.webhooks.sender import Signer
from orchestrator.worker.retry import Schedule
from tests.docs.pages import page, rows
from tests.orchestrator.webhooks.receiver import SECRET

PAGE = page("docs/webhooks.md")
BODY = '{"type":"job.finished","data":{"title":"é"}}'
UNITS = {"s": 1, "min": 60, "h": 3600}
PYTHON = """
import json, sys
given = json.load(sys.stdin)
print(checked(given["secret"], given["headers"], given["body"].encode())["type"])
"""
JAVASCRIPT = """
const given = JSON.parse(await new Response(Deno.stdin.readable).text());
console.log(checked(given.secret, given.headers, given.body).type);
"""


def test_the_documented_waits_are_those_of_the_default_setting() -> None:
    section = PAGE.split("## Retries\n")[1].split("\n- ")[0]
    said = [row[1].split() for row in rows(section)]

    assert said.pop() == ["given", "up"]
    assert [int(number) * UNITS[unit] for number, unit in said] == list(
        Schedule.parse(Settings().webhook_backoff).waits
    )


@pytest.mark.parametrize("language", ["python", "js"])
async def test_the_documented_code_verifies_a_signature(language: str, tmp_path: Path) -> None:
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    script = tmp_path / f"checked.{'py' if language == 'python' else 'mjs'}"
    script.write_text(code + (PYTHON if language == "python" else JAVASCRIPT))
    deno = Path(sys.executable).with_name("deno")
    command = [sys.executable] if language == "python" else [str(deno), "run", "--no-remote"]
    headers = Signer(webhook_keys(SECRET)).headers("an-id", datetime.now(UTC), BODY.encode())

    async def answer(body: str) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *command,
            str(script),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        given = {"secret": SECRET, "headers": headers, "body": body}
        said, _ = await process.communicate(json.dumps(given).encode())
        return process.returncode, said.decode().strip()

    assert await answer(BODY) == (0, "job.finished")
    assert await answer(BODY + " ") == (1, "")
