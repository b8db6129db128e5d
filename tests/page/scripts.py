"""Runs modules of the page in Deno, without a browser."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT

STATIC = ROOT / "gateway" / "page" / "static"
DENO = str(Path(sys.executable).with_name("deno"))


def run(module: str, expression: str, given: Any = None) -> Any:
    """Evaluates `expression` over `module` (its exports) and `given`; returns the JSON result."""
    script = f"""
      const module = await import({json.dumps((STATIC / module).as_uri())});
      const given = {json.dumps(given)};
      console.log(JSON.stringify({expression}));
    """
    command = [DENO, "run", "--no-config", "--no-remote", "--quiet", f"--allow-read={STATIC}", "-"]
    done = subprocess.run(
        command, input=script, capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)
