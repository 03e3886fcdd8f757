"""The compiled kernels are found, can be switched off, and share torch's threads."""

import os
import shutil
import subprocess

import pytest

from sparsegate_runtime.kernels import KERNELS, explain_missing


def test_the_kernels_are_built_unless_the_environment_switches_them_off():
    """Other tests skip what needs kernels, so this one fails if the build has failed."""
    if os.environ.get("SPARSEGATE_KERNELS") != "off":
        assert KERNELS is not None, f"{explain_missing()}, or set SPARSEGATE_KERNELS=off"


def test_the_environment_can_switch_them_off(python, environment, monkeypatch):
    monkeypatch.setitem(environment, "SPARSEGATE_KERNELS", "off")
    done = python("-c", "from sparsegate_runtime.kernels import KERNELS; print(KERNELS)")
    assert done.stdout.strip() == "None", done.stderr


@pytest.mark.skipif(KERNELS is None, reason="kernels not built")
def test_the_environment_can_name_another_library(python, environment, tmp_path, monkeypatch):
    copy = shutil.copy(KERNELS._name, tmp_path / "other.so")
    monkeypatch.setitem(environment, "SPARSEGATE_KERNELS", str(copy))
    done = python("-c", "from sparsegate_runtime.kernels import KERNELS; print(KERNELS._name)")
    assert done.stdout.strip() == str(copy), done.stderr


@pytest.mark.skipif(KERNELS is None, reason="kernels not built")
def test_the_kernels_use_the_threads_of_torch(python):
    count = (
        "import os, torch; from sparsegate_runtime.kernels import KERNELS; "
        "torch.set_num_threads(3)\n"
        "torch.ones(3_000_000).add_(1); before = len(os.listdir('/proc/self/task'))\n"
        "from sparsegate.files import compress\n"
        "packed = compress({'w': (torch.rand(100_000) < 0.1).float()}); packed.state_dict()\n"
        "print(len(os.listdir('/proc/self/task')) - before)"
    )
    done = python("-c", count)
    assert done.stdout.strip() == "0", done.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_library_of_another_version_is_left_aside_with_a_word(
    python, environment, tmp_path, monkeypatch
):
    (tmp_path / "old.c").write_text("long sg_variant(void) { return 0; }\n")
    subprocess.run(
        ["cc", "-shared", "-fPIC", tmp_path / "old.c", "-o", tmp_path / "old.so"], check=True
    )
    monkeypatch.setitem(environment, "SPARSEGATE_KERNELS", str(tmp_path / "old.so"))
    done = python("-c", "from sparsegate_runtime.kernels import KERNELS; print(KERNELS)")
    assert done.stdout.strip() == "None", done.stderr
    assert "old.so is of another version" in done.stderr
