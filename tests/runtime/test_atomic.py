"""Files are written completely or not at all, also when the kernel refuses."""

import os
import stat
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsegate_runtime.atomic import remove_partials, write_atomically

LIMITED = """
import resource, sys
from pathlib import Path
from sparsegate_runtime.atomic import write_atomically

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for name in sys.argv[1:]:
    try:
        write_atomically(Path(name), b"new" * 1000)
    except OSError as error:
        print(error.strerror)
"""


@pytest.fixture(scope="session")
def scratch(tmp_path_factory):
    """A folder that all examples of one property write to."""
    return tmp_path_factory.mktemp("scratch")


@given(st.binary(), st.binary())
def test_the_last_content_is_the_file_and_nothing_else_is_left(scratch, first, second):
    path = scratch / "file"
    write_atomically(path, first)
    write_atomically(path, second)
    assert path.read_bytes() == second
    assert [each.name for each in scratch.iterdir()] == ["file"]


def test_a_full_disk_leaves_the_old_file_or_none_and_no_part(python, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"old")
    done = python("-c", LIMITED, str(old), str(new))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["File too large"] * 2
    assert old.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["old"]


def test_a_reader_that_has_the_old_file_open_still_reads_it_whole(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old content")
    with path.open("rb") as reader:
        write_atomically(path, b"new")
        assert reader.read() == b"old content"
    assert path.read_bytes() == b"new"


def test_a_folder_in_the_way_is_an_error_that_leaves_no_part(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="director"):
        write_atomically(tmp_path / "file", b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"cannot write file: the folder .*nowhere does not exist"
    ):
        write_atomically(tmp_path / "nowhere" / "file", b"new")


@pytest.fixture(scope="session")
def dead():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_next_write_of_a_file_removes_what_a_killed_process_left_of_it(dead, tmp_path):
    left = tmp_path / f".report.html.{dead}.partial"
    other = tmp_path / f".other.html.{dead}.partial"
    left.write_bytes(b"half a page")
    other.write_bytes(b"half of another")
    write_atomically(tmp_path / "report.html", b"a page")
    assert sorted(path.name for path in tmp_path.iterdir()) == [other.name, "report.html"]


def test_the_partial_file_of_a_running_process_stays(dead, tmp_path):
    running = tmp_path / f".page.{os.getpid()}.partial"
    for path in (running, tmp_path / f".page.{dead}.partial", tmp_path / ".page.x.partial"):
        path.touch()
    remove_partials(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [running.name, ".page.x.partial"]


def test_the_folder_is_synced_after_the_rename(monkeypatch, tmp_path):
    events = []
    replace, fsync = os.replace, os.fsync

    def note_fsync(descriptor):
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        events.append(kind)
        fsync(descriptor)

    def note_rename(*paths, **folders):
        events.append("rename")
        replace(*paths, **folders)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_rename)
    monkeypatch.setattr(os, "rename", note_rename)
    write_atomically(tmp_path / "file", b"content")
    assert events == ["file", "rename", "folder"]
