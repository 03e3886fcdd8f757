"""Every example runs from its first line to its last, on as little as shows that it works."""

import gzip
import os
import shutil
import struct
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
FOLDERS = sorted(path for path in EXAMPLES.iterdir() if (path / "train.py").exists())
TEXT = (
    "First Citizen:\nWhat, quiet?\nSay to the king, sir.\n\nSecond Citizen:\nI say the quick.\n\n"
)


def run(*words, module=None, **environment):
    command = [sys.executable, *(["-m", *module] if module else []), *map(str, words)]
    settings = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(
        command, env=settings, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_images(folder):
    draw = np.random.default_rng(0)
    for part, count in (("train", 1000), ("t10k", 500)):
        labels = draw.integers(0, 10, count, dtype=np.uint8)
        pixels = (labels[:, None, None] * 20 + draw.integers(0, 30, (count, 28, 28))).astype("u1")
        with gzip.open(folder / f"{part}-images-idx3-ubyte.gz", "wb") as file:
            file.write(struct.pack(">4i", 2051, count, 28, 28) + pixels.tobytes())
        with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">2i", 2049, count) + labels.tobytes())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_an_example_is_short_and_shows_what_it_printed(folder):
    for script in folder.glob("*.py"):
        assert len(script.read_text().splitlines()) <= 120, script
    text = (folder / "README.md").read_text()
    assert f"examples/{folder.name}/train.py" in text
    assert "```text" in text, "the README has no measured output"
    assert f"]({folder.name}/README.md)" in (EXAMPLES / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn", "lightning"])
def test_images_are_classified(name, tmp_path):
    if name == "lightning":
        pytest.importorskip("lightning")
    write_images(tmp_path)
    out = tmp_path / "network.sg"
    printed = run(EXAMPLES / name / "train.py", tmp_path, "--epochs", 3, "--out", out)
    assert "keep=0.05: " in printed
    assert f"{out.stat().st_size:,} bytes" in printed


@pytest.mark.slow
def test_a_gru_reads_and_writes_text(tmp_path):
    (tmp_path / "text").write_text(TEXT * 100)
    out = tmp_path / "network.sg"
    printed = run(EXAMPLES / "gru/train.py", tmp_path / "text", "--steps", 100, "--out", out)
    assert "bits per character of unseen text" in printed


@pytest.mark.slow
def test_a_sparse_transformer_has_circuits(tmp_path):
    (tmp_path / "text").write_text(TEXT * 400)
    words = (tmp_path / "text", "--keep", 0.05, "--steps", 300, "--out", tmp_path / "network.sg")
    run(EXAMPLES / "circuits/train.py", *words)
    page = tmp_path / "page.html"
    words = (tmp_path / "network.sg", tmp_path / "text", "--out", page)
    printed = run(EXAMPLES / "circuits/page.py", *words)
    assert "After q comes u: " in printed
    assert page.read_text().count("<svg") == printed.count(" weights")


@pytest.mark.slow
def test_a_bert_is_fine_tuned_and_read_again(tmp_path):
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "a", "the"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=len(words), intermediate_size=32, **size)
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    for part in ("train", "dev"):
        lines = [f"the film {word}\t{label}" for label, word in enumerate(("bad", "good"))]
        (tmp_path / f"{part}.tsv").write_text("\n".join(lines * 64))
    out = tmp_path / "out"
    words = (tmp_path / "bert", tmp_path, "--epochs", 5, "--out", out)
    printed = run(EXAMPLES / "bert/train.py", *words, ACCELERATE_USE_CPU="true")
    assert "% of " in printed
    assert (out / "model.sparse.safetensors").exists()
    transformers.AutoModelForSequenceClassification.from_pretrained(out)


@pytest.mark.slow
def test_accelerate_launch_trains_the_same_masks_on_two_processes(tmp_path):
    words = (EXAMPLES / "accelerate/train.py", "--epochs", 20, "--out", tmp_path / "network.sg")
    launch = ("accelerate.commands.launch", "--multi_gpu", "--num_processes", "2")
    launch += ("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")
    printed = run(*words, module=launch, ACCELERATE_USE_CPU="true")
    assert "weights by process: [1920, 1920]" in printed
    assert "keep=0.1: 1,920 of 19,200 weights are left" in printed
    assert (tmp_path / "network.sg").exists()


@pytest.mark.slow
def test_every_format_predicts_the_same(tmp_path):
    write_images(tmp_path)
    words = (tmp_path, "--epochs", 2, "--weights", 400, "--out", tmp_path / "out")
    printed = run(EXAMPLES / "formats/train.py", *words)
    for name in ("network.sg", "network.sparse.safetensors", "network_fp32.c"):
        (line,) = [line for line in printed.splitlines() if line.startswith(name)]
        assert "500 of 500 the same" in line


@pytest.mark.slow
def test_spoken_digits_become_c(tmp_path):
    draw = np.random.default_rng(0)
    for digit in range(4):
        for number in range(12):
            with wave.open(str(tmp_path / f"{digit}_anna_{number}.wav"), "wb") as file:
                file.setparams((1, 2, 8000, 0, "NONE", ""))
                tone = np.sin(np.arange(3000) * 0.3 * (1 + digit)) * 9000
                file.writeframes((tone + draw.normal(0, 300, 3000)).astype("<i2").tobytes())
    out = tmp_path / "keyword"
    words = (tmp_path, "--epochs", 20, "--weights", 300, "--out", out)
    printed = run(EXAMPLES / "keyword/train.py", *words)
    assert "weights=300: 300 of " in printed
    assert "recordings that it has not heard" in printed
    assert (out / "network.c").exists()
    if shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm"):
        assert "Cortex-M0+: " in printed
