"""`ytcaption collect` on a real mesh."""

import json
from pathlib import Path

from tests.conftest import DATA, RealMesh
from tests.end_to_end.spoken import plain, run
from tests.support.site import Site


def test_a_collection_is_transcribed_and_every_command_shows_the_same_result(
    real_mesh: RealMesh, site: Site, tmp_path: Path
) -> None:
    addresses = (f"{site.url}/files/short.ogg", f"{site.url}/files/no-such.ogg")

    output = ("-o", str(tmp_path), "-f", "txt", "--json")
    done = run("collect", "--each", *addresses, *output, mesh=real_mesh)
    *_, last = map(json.loads, done.stdout.splitlines())
    collection_id = last["collection_id"]
    watched = run("watch", collection_id, mesh=real_mesh)
    shown = json.loads(run("collection", collection_id, "--json", mesh=real_mesh).stdout)
    cancelled = run("cancel", collection_id, mesh=real_mesh)
    deleted = run("delete", collection_id, mesh=real_mesh)
    gone = run("watch", collection_id, mesh=real_mesh)

    assert done.returncode == watched.returncode == 5, done.stderr
    assert last["counts"] == {"COMPLETED": 1, "FAILED": 1}
    (written,) = tmp_path.iterdir()
    assert plain(written.read_text()) == plain((DATA / "short.txt").read_text())
    assert written.name.startswith("001 ")
    assert "   2 failed" in watched.stdout
    assert "VIDEO_NOT_FOUND" in watched.stdout
    assert [one["number"] for one in shown["members"]] == [1, 2]
    assert cancelled.stdout == f"{collection_id} partial\n"
    assert deleted.stdout == f"{collection_id} deleted: 2 jobs\n"
    assert gone.returncode == 3
