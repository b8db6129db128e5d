"""The form of options asks for options that exist, with their defaults."""

import re

from mesh.job_options import NAMES, UNGROUPED
from tests.page.scripts import STATIC, run


def test_every_option_of_the_form_is_in_the_table() -> None:
    form = (STATIC / "components" / "options.js").read_text("utf-8")
    set_by_name = set(re.findall(r"\bvalues\.(\w+) = ", form))
    switches = {name: on for name, _, on in run("components/options.js", "module.SWITCHES")}

    expected = {"language", "languages", "language_out", "mixed_languages", "initial_prompt"}
    assert set_by_name >= expected
    assert set_by_name | set(switches) <= NAMES
    defaults = {option.name: option.default for option in UNGROUPED}
    del switches["captions_policy"]
    assert switches == {name: defaults[name] for name in switches}
