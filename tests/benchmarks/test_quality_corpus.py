"""The corpus of the quality benchmark, with and without INDEX.tsv."""

from pathlib import Path

import pytest

from benchmarks.quality_corpus import INDEX, Entry, decode, read_corpus, select
from tests.benchmarks.samples import SAMPLE


def _corpus(folder: Path, *index: str, **texts: str | None) -> Path:
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".ogg").write_bytes(SAMPLE.read_bytes())
        if text is not None:
            path.with_suffix(".txt").write_text(text, encoding="utf-8")
    if index:
        lines = ["file\tlanguage\tseconds\twords\tsource\tlicence\tnote", *index]
        (folder / INDEX).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _read(folder: Path) -> list[tuple[str, str, str | None]]:
    return [(entry.name, entry.language, entry.reference) for entry in read_corpus(folder)]


def test_the_index_names_recordings_languages_and_missing_references(tmp_path: Path) -> None:
    rows = ("b/x.ogg\tpt-BR\t1\t2\ts\tl\t", "a.ogg\tnone\t1\t0\ts\tl\t", "c.ogg\ten\t1\t-\ts\tl\t")
    _corpus(tmp_path, *rows, b__x=" olá mundo\n", a="", c=None, unlisted="text")

    assert _read(tmp_path) == [
        ("a.ogg", "none", ""),
        ("b/x.ogg", "pt", "olá mundo"),
        ("c.ogg", "en", None),
    ]


def test_without_an_index_folders_name_the_language_and_an_empty_text_is_no_speech(
    tmp_path: Path,
) -> None:
    _corpus(tmp_path, pt__a="olá", en_libri__b=None, other__c="text", noise__d="\n")
    (tmp_path / "en_libri").rename(tmp_path / "en-libri")
    (tmp_path / "readme.md").write_text("no recording", encoding="utf-8")

    assert _read(tmp_path) == [
        ("en-libri/b.ogg", "en", None),
        ("noise/d.ogg", "none", ""),
        ("other/c.ogg", "", "text"),
        ("pt/a.ogg", "pt", "olá"),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("missing.ogg\ten\t1\t2\ts\tl\t", "missing.ogg"),
        ("a.ogg\ten\t1\t2\ts\tl\t", r"no \.txt"),
        ("a.ogg\tklingon\t1\t-\ts\tl\t", "klingon"),
    ],
)
def test_an_index_that_contradicts_the_files_is_refused(
    tmp_path: Path, row: str, message: str
) -> None:
    _corpus(tmp_path, row, a=None)

    with pytest.raises(ValueError, match=message):
        read_corpus(tmp_path)


def test_a_limit_takes_clips_from_the_whole_corpus_and_a_language_its_own() -> None:
    entries = [Entry(Path(), str(n), "en" if n % 3 else "pt", "") for n in range(9)]

    assert [entry.name for entry in select(entries, "", 3)] == ["0", "3", "6"]
    assert [entry.name for entry in select(entries, "pt", 0)] == ["0", "3", "6"]
    assert [entry.name for entry in select(entries, "pt", 2)] == ["0", "3"]
    assert select(select(entries, "", 4), "", 4) == select(entries, "", 4)
    assert len(select(entries, "", 100)) == 9


def test_a_recording_is_decoded_to_its_length(tmp_path: Path) -> None:
    (entry,) = read_corpus(_corpus(tmp_path, en__a="text"))

    clip = decode(entry)

    assert 10 < clip.seconds < 60
    assert clip.samples.any()
    assert clip.is_language_known
