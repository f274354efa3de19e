"""Files arrive whole and as published, whatever the connection, the server and the disk do."""

from __future__ import annotations

import hashlib
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from urllib.request import Request

import numpy as np
import pytest

from file_server import FileServer
from subprocesses import SOURCE, run_python
from wellposed.data.download import _fetch, _http
from wellposed.data.download._fetch import Download, fetch
from wellposed.errors import DataError

CONTENT = np.random.default_rng(0).bytes(300_000)
OTHER = np.random.default_rng(1).bytes(300_000)


def md5(content: bytes) -> str:
    return f"md5:{hashlib.md5(content).hexdigest()}"


def offered(server: FileServer, content: bytes = CONTENT, *, size: int | None = None) -> Download:
    return Download(server.url, "file.bin", md5(content), size)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def broken_off(server: FileServer, folder: Path, *, after: int = 100_000) -> None:
    """A call that gives up, with the first ``after`` bytes here."""
    server.cuts, server.statuses = [after], []
    give_up = [503] * _fetch.ATTEMPTS

    def progress(done: int, total: int | None) -> None:
        server.statuses[:] = give_up  # once the answer has begun

    with pytest.raises(DataError, match=r"503.*100000 bytes are kept"):
        fetch(offered(server), folder, progress=progress)
    server.statuses.clear()
    assert names(folder) == ["file.bin.part", "file.bin.part.json"]


def test_a_file_is_fetched_once(tmp_path):
    seen = []
    with FileServer(CONTENT) as server:
        for _ in range(2):
            path = fetch(offered(server, size=300_000), tmp_path / "new", progress=lambda *at: seen.append(at))
            assert path.read_bytes() == CONTENT
        assert len(server.requests) == 1
    assert names(tmp_path / "new") == ["file.bin"]
    assert seen[0] == (0, 300_000)
    assert seen[-1] == (300_000, 300_000)
    assert seen == sorted(seen)


def test_a_broken_connection_is_resumed_within_a_call(tmp_path):
    with FileServer(CONTENT, cuts=[100_000, 50_000]) as server:
        assert fetch(offered(server), tmp_path).read_bytes() == CONTENT
        assert [request.get("Range") for request in server.requests] == [None, "bytes=100000-", "bytes=150000-"]
        assert {request.get("If-Range") for request in server.requests[1:]} == {'"v1"'}
        assert server.sent == [100_000, 50_000, 150_000]


def test_the_next_call_resumes_what_was_kept(tmp_path):
    with FileServer(CONTENT) as server:
        broken_off(server, tmp_path)
        before = len(server.sent)
        assert fetch(offered(server), tmp_path).read_bytes() == CONTENT
        assert server.requests[-1]["Range"] == "bytes=100000-"
        assert server.sent[before:] == [200_000]
    assert names(tmp_path) == ["file.bin"]


@pytest.mark.parametrize("heeds_if_range", [True, False])
def test_a_file_that_changed_in_between_starts_over(tmp_path, heeds_if_range):
    with FileServer(CONTENT, heeds_if_range=heeds_if_range) as server:
        broken_off(server, tmp_path)
        server.content, server.etag = OTHER, '"v2"'
        assert fetch(offered(server, OTHER), tmp_path).read_bytes() == OTHER


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_strong_validator_nothing_is_built_upon(tmp_path, etag):
    with FileServer(CONTENT, etag=etag, cuts=[100_000]) as server:
        assert fetch(offered(server), tmp_path).read_bytes() == CONTENT
        assert server.sent == [100_000, 300_000]


def test_a_server_without_ranges_starts_over(tmp_path):
    with FileServer(CONTENT, ranges=False, cuts=[100_000]) as server:
        assert fetch(offered(server), tmp_path).read_bytes() == CONTENT
        assert server.sent == [100_000, 300_000]


def test_a_part_that_is_longer_than_the_file_starts_over(tmp_path):
    with FileServer(CONTENT) as server:
        broken_off(server, tmp_path)
        server.content, server.heeds_if_range = CONTENT[:50_000], False
        assert fetch(offered(server, CONTENT[:50_000]), tmp_path).stat().st_size == 50_000


def test_a_part_without_its_note_is_not_built_upon(tmp_path):
    (tmp_path / "file.bin.part").write_bytes(b"from who knows where")
    with FileServer(CONTENT) as server:
        assert fetch(offered(server), tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_removes_the_file_and_names_both(tmp_path):
    with FileServer(OTHER) as server, pytest.raises(DataError) as caught:
        fetch(offered(server), tmp_path)
    assert md5(CONTENT) in str(caught.value)
    assert md5(OTHER) in str(caught.value)
    assert names(tmp_path) == []


def test_another_file_of_the_name_is_named_and_left_alone(tmp_path):
    (tmp_path / "file.bin").write_bytes(b"mine")
    with FileServer(CONTENT) as server, pytest.raises(DataError, match=r"file\.bin has the checksum .* move it away"):
        fetch(offered(server), tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == b"mine"
    assert server.requests == []


def test_a_replaced_file_is_noticed_before_it_is_fetched(tmp_path):
    with FileServer(CONTENT) as server, pytest.raises(DataError, match=r"offers 300000 bytes.*has 299999"):
        fetch(offered(server, size=299_999), tmp_path)
    assert names(tmp_path) == []


def test_without_a_published_checksum_the_one_found_is_kept(tmp_path):
    with FileServer(CONTENT, cuts=[100_000]) as server:
        download = Download(server.url, "file.bin", None, None)
        path = fetch(download, tmp_path)
        record = (tmp_path / "file.bin.sha256").read_text()
        assert record == f"{hashlib.sha256(CONTENT).hexdigest()}  file.bin\n"
        assert fetch(download, tmp_path) == path
        path.write_bytes(OTHER)
        with pytest.raises(DataError, match="checksum"):
            fetch(download, tmp_path)


def test_without_length_and_checksum_nothing_tells_that_it_is_whole(tmp_path):
    with FileServer(CONTENT, tells_length=False) as server, pytest.raises(DataError, match="neither a length nor"):
        fetch(Download(server.url, "file.bin", None, None), tmp_path)


def test_without_a_length_the_checksum_decides(tmp_path):
    with FileServer(CONTENT, tells_length=False) as server:
        assert fetch(offered(server), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_refusal_is_not_tried_again(tmp_path, status):
    with FileServer(CONTENT, statuses=[status]) as server:
        with pytest.raises(DataError, match=f"answers {status}"):
            fetch(offered(server), tmp_path)
        assert len(server.requests) == 1


def test_attempts_that_get_nowhere_are_bounded(tmp_path):
    with FileServer(CONTENT) as server:
        download = offered(server)
    with pytest.raises(DataError, match=f"cannot connect.*{_fetch.ATTEMPTS} times in a row"):
        fetch(download, tmp_path)
    with FileServer(CONTENT, ranges=False, cuts=[1000] * 99) as server:
        with pytest.raises(DataError, match="after 1000 of 300000 bytes"):
            fetch(offered(server), tmp_path)
        assert len(server.requests) <= 2 * _fetch.ATTEMPTS


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/x", "http://", "data:,x", "x"])
def test_only_the_web_is_fetched_from(url):
    with pytest.raises(DataError, match="only http"):
        Download(url, "x", None, None)


@pytest.mark.parametrize("file", ["../x", "/x", "a/b", "", ".."])
def test_a_file_has_a_name_and_no_folder(file):
    with pytest.raises(DataError, match="no name of a file"):
        Download("https://example.org/x", file, None, None)


def test_a_checksum_has_its_form():
    with pytest.raises(DataError, match="no checksum"):
        Download("https://example.org/x", "x", "md5:123", None)


def test_redirections_are_followed(tmp_path):
    with FileServer(CONTENT) as server, FileServer(b"", location=server.url) as front:
        assert fetch(offered(front), tmp_path).read_bytes() == CONTENT


def test_a_redirection_out_of_the_web_is_refused(tmp_path):
    with FileServer(b"", location="ftp://example.org/x") as front, pytest.raises(DataError):
        fetch(offered(front), tmp_path)


@pytest.fixture
def certificate(tmp_path) -> Path:
    """A key and a certificate for 127.0.0.1, signed by itself."""
    path = tmp_path / "key.pem"
    if not (openssl := shutil.which("openssl")):
        pytest.skip("openssl is not here to make a certificate; the rule itself was tried")
    options = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    options += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    options += ["-keyout", str(path), "-out", str(path)]
    subprocess.run([openssl, "req", *options], capture_output=True, check=True)
    return path


def test_encryption_is_not_given_up(tmp_path, monkeypatch, certificate):
    with FileServer(CONTENT) as plain, FileServer(CONTENT, certificate=certificate) as secure:
        with pytest.raises(DataError, match="certificate that cannot be trusted"):
            fetch(offered(secure), tmp_path / "data")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert fetch(offered(secure), tmp_path / "data").read_bytes() == CONTENT
        secure.location = plain.url
        with pytest.raises(DataError, match="not encrypted"):
            fetch(offered(secure), tmp_path / "other")
        assert plain.requests == []


@pytest.mark.parametrize("target", ["http://example.org/x", "ftp://example.org/x", "file:///etc/passwd"])
def test_the_rule_about_redirections(target):
    with pytest.raises(DataError, match="not encrypted"):
        _http._Redirects().redirect_request(Request("https://example.org/x"), BytesIO(), 302, "", {}, target)


def test_threads_and_processes_fetch_it_once(tmp_path):
    with FileServer(CONTENT, slow=0.01) as server:
        with ThreadPoolExecutor(4) as pool:
            paths = list(pool.map(lambda _: fetch(offered(server), tmp_path), range(4)))
        assert len(set(paths)) == 1
        assert len(server.requests) == 1
    assert names(tmp_path) == ["file.bin"]


CHILD = """
import sys
from pathlib import Path
from wellposed.data.download._fetch import Download, fetch
fetch(Download(sys.argv[1], "file.bin", sys.argv[2], None), Path(sys.argv[3]),
      progress=lambda done, total: print(done, flush=True))
"""


def child(server: FileServer, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, server.url, md5(CONTENT), str(folder)],
        env={"PYTHONPATH": str(SOURCE), "no_proxy": "127.0.0.1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_process_that_is_killed_is_resumed(tmp_path):
    with FileServer(CONTENT, slow=0.05) as server:
        process = child(server, tmp_path)
        assert process.stdout
        while int(process.stdout.readline()) < 50_000:
            pass
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kept = (tmp_path / "file.bin.part").stat().st_size
        assert 50_000 <= kept < 300_000
        server.slow = 0
        assert fetch(offered(server), tmp_path).read_bytes() == CONTENT
        assert server.requests[-1]["Range"] == f"bytes={kept}-"
        assert server.sent[-1] == 300_000 - kept
    assert names(tmp_path) == ["file.bin"]


def test_a_part_that_was_whole_when_its_process_was_killed_needs_no_request(tmp_path):
    with FileServer(CONTENT) as server:
        broken_off(server, tmp_path)
        (tmp_path / "file.bin.part").write_bytes(CONTENT)
        before = len(server.requests)
        assert fetch(offered(server), tmp_path).read_bytes() == CONTENT
        assert len(server.requests) == before


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with FileServer(CONTENT) as server, pytest.raises(DataError, match="choose a folder that can be written"):
        fetch(offered(server), tmp_path / "file")


def test_a_file_that_grows_too_large_for_its_disk_keeps_its_part(tmp_path):
    with FileServer(CONTENT) as server:
        text = run_python(f"""
import resource
from pathlib import Path
from wellposed.data.download._fetch import Download, fetch
from wellposed.errors import DataError
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    fetch(Download({server.url!r}, "file.bin", {md5(CONTENT)!r}, None), Path({str(tmp_path)!r}))
except DataError as error:
    print(error)
""")
        assert "200000 more bytes are needed" in text
        assert "100000 are kept" in text
        assert fetch(offered(server), tmp_path).read_bytes() == CONTENT
        assert server.sent[-1] == 200_000


@pytest.mark.parametrize("tells_length", [True, False])
def test_a_full_disk(small_disk, tells_length):
    with FileServer(CONTENT, tells_length=tells_length) as server:
        with pytest.raises(DataError, match=r"no room for .* more bytes are needed"):
            fetch(offered(server), small_disk)
        assert "file.bin.part" in names(small_disk)
        subprocess.run(["mount", "-o", "remount,size=2m", str(small_disk)], check=True)
        assert fetch(offered(server), small_disk).read_bytes() == CONTENT
        if not tells_length:
            assert int(server.requests[-1]["Range"][6:-1]) > 100_000
