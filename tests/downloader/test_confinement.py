"""A confined child may compute, fetch, and write to its own folder, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from downloader.child.confinement import ForbiddenActionError, check_deno_arguments
from downloader.child.ytdlp_client import deno_path
from downloader.commands import ClientOptions
from tests.downloader.conftest import Serve
from tests.downloader.helpers import download
from tests.downloader.site import Site, content

ROOT = Path(__file__).parents[2]
PYTHONPATH = {"PYTHONPATH": f"{ROOT}:{ROOT / 'gen'}"}

INSIDE = """
import os, socket, subprocess, sys
from pathlib import Path
from downloader.child.confinement import check_deno_arguments, confine
from downloader.child.guard import Guard
{imports}
os.chdir({folder!r})
confine({folder!r}, Guard(), {{{deno!r}: check_deno_arguments}})
"""
YT_DLP = """
from downloader.commands import ClientOptions
from downloader.child.ytdlp_client import YtDlpClient
"""
DENO = deno_path(ClientOptions(1))


def inside(folder: Path, action: str, imports: str = "") -> str:
    """What a confined process prints after the action."""
    script = INSIDE.format(folder=str(folder), imports=imports, deno=DENO) + action
    environment = {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'gen'}",
        "PATH": os.environ["PATH"],
        "SECRET": "x",
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "action",
    [
        "subprocess.run(['true'])",
        "subprocess.run('true', shell=True)",
        "os.system('true')",
        "os.execv('/bin/true', ['true'])",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "os.fork()",
        f"subprocess.run([{DENO!r}, 'run', '--allow-net', '-'])",
        f"subprocess.run([{DENO!r}, 'run', '-A', '-'])",
        f"subprocess.run([{DENO!r}, 'eval', '1'])",
        "Path('/tmp/escaped').write_text('x')",
        "Path('../escaped').write_text('x')",
        "os.open('/tmp/escaped', os.O_CREAT | os.O_WRONLY)",
    ],
)
def test_a_forbidden_action_is_refused(tmp_path: Path, action: str) -> None:
    assert "ForbiddenActionError" in inside(tmp_path, action)


@pytest.mark.parametrize(
    "action",
    [
        "socket.create_connection(('127.0.0.1', 9))",
        "socket.socket().connect_ex(('127.0.0.1', 9))",
        "__import__('_socket').socket().connect(('127.0.0.1', 9))",
        "socket.socket(socket.AF_UNIX).connect('/run/x.sock')",
        "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
    ],
)
def test_a_forbidden_address_is_refused_by_whatever_call(tmp_path: Path, action: str) -> None:
    assert "ForbiddenAddressError" in inside(tmp_path, action)


@pytest.mark.parametrize("action", ["Path('piece').write_text('x'); print('ok')", "print('ok')"])
def test_what_a_child_needs_is_allowed(tmp_path: Path, action: str) -> None:
    assert inside(tmp_path, action) == "ok"


def test_the_environment_is_cleared_for_third_party_code(tmp_path: Path) -> None:
    assert inside(tmp_path, "print(os.environ.get('SECRET'), os.environ['TMPDIR'])") == (
        f"None {tmp_path}"
    )


def test_yt_dlp_finds_its_javascript_runtime_and_solver_when_confined(tmp_path: Path) -> None:
    action = """
from yt_dlp.dependencies import yt_dlp_ejs
site = YtDlpClient(ClientOptions(1), Guard())
runtime = site._js_runtimes["deno"].info
print(runtime.name, runtime.supported, runtime.path, bool(yt_dlp_ejs))
"""
    assert inside(tmp_path, action, YT_DLP) == f"deno True {DENO} True"


def test_the_solver_of_yt_dlp_runs_when_confined(tmp_path: Path) -> None:
    action = """
from yt_dlp.extractor.youtube.jsc._builtin.deno import DenoJCP
site = YtDlpClient(ClientOptions(1), Guard())
extractor = site.get_info_extractor("Youtube")
from yt_dlp.extractor.youtube.pot._provider import IEContentProviderLogger
class Quiet(IEContentProviderLogger):
    log_level = IEContentProviderLogger.LogLevel.ERROR
    trace = debug = info = warning = error = lambda *a, **k: None
solver = DenoJCP(extractor, Quiet(), {})
print(solver.is_available(), solver._run_js_runtime("console.log(6 * 7)").strip())
"""
    assert inside(tmp_path, action, YT_DLP) == "True 42"


def test_a_deno_script_reaches_no_host_and_reads_no_file(tmp_path: Path, site: Site) -> None:
    url = site.url("/secret", content(b"secret"))
    (tmp_path / "secret.txt").write_text("secret")
    actions = (
        f"await fetch('{url}')",
        "Deno.readTextFileSync('secret.txt')",
        "Deno.env.get('HOME')",
    )
    command = [DENO, "run", "--no-prompt", "--no-remote", "-"]
    check_deno_arguments(command[1:])
    for action in actions:
        done = subprocess.run(command, input=action, capture_output=True, text=True, check=False)
        assert "NotCapable" in done.stderr

    assert site.hits == []


def test_deno_with_any_permission_is_refused() -> None:
    for flag in ("--allow-net", "--allow-all", "-A", "-N", "--env-file=x"):
        with pytest.raises(ForbiddenActionError):
            check_deno_arguments(["run", flag, "-"])


def test_no_plugin_configuration_or_netrc_of_the_environment_is_used(tmp_path: Path) -> None:
    plugins = tmp_path / "plugins" / "yt_dlp_plugins" / "extractor"
    plugins.mkdir(parents=True)
    (plugins / "evil.py").write_text("print('a plugin was loaded')")
    (tmp_path / ".config" / "yt-dlp").mkdir(parents=True)
    (tmp_path / ".config" / "yt-dlp" / "config").write_text("--proxy http://evil.invalid\n")
    script = (
        "from downloader.child.ytdlp_client import YtDlpClient;"
        "from downloader.commands import ClientOptions; from downloader.child.guard import Guard;"
        "site = YtDlpClient(ClientOptions(1), Guard());"
        "print(site.params['proxy'], site.params.get('usenetrc'), site._pps['post_process'],"
        " site.params.get('netrc_cmd'), list(site._request_director.handlers))"
    )
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{PYTHONPATH['PYTHONPATH']}:{tmp_path / 'plugins'}",
        "http_proxy": "http://evil.invalid",
    }

    output = subprocess.check_output([sys.executable, "-c", script], env=environment, text=True)

    assert output.split() == ["None", "[]", "None", "['Requests']"]


async def test_a_download_leaves_nothing_outside_its_folder(
    serve: Serve, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    async with serve() as downloader:
        await download(downloader, site.url("/talk.mp3", content(b"sound")))

    assert list(home.iterdir()) == []
