"""What a program does with the gateway, for what a test needs before the browser comes."""

import json
import time
from typing import Any
from urllib.request import Request, urlopen

SECONDS = 60
ENDED = ("succeeded", "failed", "cancelled")


class Caller:
    """Asks in JSON."""

    def __init__(self, base: str) -> None:
        self._base = base

    def submit(self, address: str, **options: Any) -> str:
        """The id of the job."""
        wish = {"youtube_url": address, "force": True} | options
        return str(self._ask("POST", "/pipeline", wish)["job_id"])

    def job(self, job_id: str) -> dict[str, Any]:
        return self._ask("GET", f"/jobs/{job_id}")

    def jobs(self) -> dict[str, Any]:
        return self._ask("GET", "/jobs?limit=100")

    def delete(self, job_id: str) -> None:
        self._ask("DELETE", f"/jobs/{job_id}")

    def finished(self, job_id: str) -> str:
        """The same id, once the job is over."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if self.job(job_id)["state"] in ENDED:
                return job_id
            time.sleep(0.1)
        raise TimeoutError(job_id)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(f"{self._base}{path}", data, headers, method=method)  # noqa: S310 # ours
        with urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
        return found
