"""The page about C code is code: its blocks run and compile."""

import re
import subprocess
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "export-c.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def compile_c(*sources):
    words = [
        "gcc",
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O1",
        "-shared",
        "-fPIC",
        "-o",
        "out.so",
    ]
    subprocess.run([*words, *sources, "-lm"], check=True)


def test_the_pages_blocks_run_and_compile(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("python"):
        exec(block, names)
    command, sizes = capsys.readouterr().out.splitlines()
    assert command in blocks("sh")[0]
    assert sizes == f"{names['written'].flash} {names['written'].ram}"
    for block, written in zip(blocks("c"), ("digits.c", "network.c"), strict=True):
        (tmp_path / "label.c").write_text(block)
        compile_c("label.c", written)
