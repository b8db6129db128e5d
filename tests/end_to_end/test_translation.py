"""A configured translation model, from the command line to the caption files."""

from pathlib import Path

from tests.conftest import DATA, running_mesh
from tests.end_to_end.spoken import run
from tests.support.tiny_translation import NLLB, write_model


def test_captions_come_in_both_languages_and_another_target_is_refused(tmp_path: Path) -> None:
    model, out = write_model(tmp_path / "tiny-nllb", NLLB), tmp_path / "out"
    with running_mesh(tmp_path, TRANSCRIBER_TRANSLATION_MODEL=str(model)) as mesh:
        transcribe = ("transcribe", str(DATA / "short.ogg"))
        done = run(*transcribe, "--translate-to", "de", "-f", "txt", "-o", str(out), mesh=mesh)
        refused = run(*transcribe, "--translate-to", "ja", mesh=mesh)

    assert done.returncode == 0, done.stderr
    texts = {path.name: path.read_text().strip() for path in out.iterdir()}
    assert texts == {
        "short.txt": "The weather is lovely this morning.",
        "short.de.txt": "Das Wetter ist herrlich diesen Morgen.",
    }
    assert refused.returncode != 0
    assert "TRANSLATION_UNSUPPORTED" in refused.stderr
    assert "only into de, en, fr, pt" in refused.stderr
