"""The page about C code is code: its blocks run and compile."""

import re
import subprocess
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "export-c.md"


def block(language):
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return found


def test_the_pages_blocks_run_and_compile(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(block("python"), {})
    assert capsys.readouterr().out.strip() in block("sh")
    (tmp_path / "label.c").write_text(block("c"))
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
        "label.so",
    ]
    subprocess.run([*words, "label.c", "digits.c", "-lm"], check=True)
