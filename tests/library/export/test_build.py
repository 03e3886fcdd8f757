"""A network is compiled once, by the compiler that is there."""

import pytest
import torch
from torch import nn

from sparsegate.export import build, find_compiler, generate


@pytest.fixture
def code():
    return generate(nn.Linear(2, 1), "net", example=torch.zeros(1, 2))


def test_a_library_is_built_once(code, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = build(code)
    made = library.stat().st_mtime_ns
    assert build(code) == library
    assert library.stat().st_mtime_ns == made
    assert [file.name for file in library.parent.iterdir()] == [library.name]
    assert library.is_relative_to(tmp_path / "sparsegate")


def test_each_compiler_has_a_library_of_its_own(compiler, code, monkeypatch):
    before = build(code)
    monkeypatch.setenv("CC", f"{compiler} -DOTHER")
    assert build(code) != before
    assert find_compiler() == [compiler, "-DOTHER"]


def test_a_compiler_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    with pytest.raises(ValueError, match="CC names 'no-such-compiler', which does not exist"):
        find_compiler()
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match="found no cc, gcc or clang; install one"):
        find_compiler()


def test_code_that_does_not_compile_leaves_nothing(code, tmp_path, monkeypatch):
    from dataclasses import replace

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ValueError, match=r"cannot compile the network: .*error"):
        build(replace(code, source="int broken("))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
