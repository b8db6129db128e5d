"""The answers of a contestant's process: a JSON line in, a JSON line out."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any


def answer(acts: Mapping[str, Callable[[str], dict[str, Any]]]) -> None:
    """Does what each line of the input names, with the path it gives, until the input ends."""
    for line in sys.stdin:
        command = json.loads(line)
        sys.stdout.write(json.dumps(acts[command["act"]](command["path"])) + "\n")
        sys.stdout.flush()
