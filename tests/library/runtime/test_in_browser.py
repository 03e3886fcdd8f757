"""Models as program images and web pages: the engine in WebAssembly computes what torch does."""

import gzip
import json
import shutil
import subprocess
from importlib import resources

import numpy as np
import pytest
import torch
from torch import nn

from sparsegate.cli import main
from sparsegate.export import Normalise
from sparsegate.runtime import image_of_model, save_image, to_web_page
from sparsegate_runtime.engine import Image, UnplannedError

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node; apt-get install nodejs")
NPM = resources.files("sparsegate.web").joinpath("npm")
RUN = """
import { readFileSync } from "node:fs";
import { Network } from "%s/index.js";
try {
  const network = await Network.load(readFileSync(process.argv[2]));
  const given = network.inputs.map((one, index) => {
    const bytes = readFileSync(process.argv[3 + index]);
    const whole = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    return one.type === "int64" ? new BigInt64Array(whole) : new Float32Array(whole);
  });
  network.run(given);
  const found = Object.values(network.run(given)).map((one) => ({ shape: one.shape, data: [...one.data] }));
  console.log(JSON.stringify({ inputs: network.inputs, found }));
} catch (error) {
  console.log(JSON.stringify({ error: error.message }));
}
"""


def pruned(model):
    torch.manual_seed(1)
    for one in model.parameters():
        if one.ndim > 1:
            one.data *= torch.rand_like(one) > 0.8
    return model.eval()


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=4)
        self.last = nn.Linear(8, 10)

    def forward(self, x):
        x = torch.nn.functional.silu(self.norm(self.first(x)))
        return self.last((x + self.second(x)).mean((2, 3)))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(30, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, ids):
        return self.layer(self.table(ids)), ids


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(5, 7, batch_first=True)

    def forward(self, x):
        return self.layer(x)[0]


CASES = {
    "pictures": (Residual, torch.randn(1, 3, 20, 20)),
    "tokens": (Tokens, torch.randint(0, 30, (2, 9))),
    "sequences": (Sequences, torch.randn(1, 6, 5)),
}
every_case = pytest.mark.parametrize(("made", "example"), CASES.values(), ids=CASES)


def by_node(tmp_path, image, *inputs):
    (tmp_path / "net.sgi").write_bytes(image)
    (tmp_path / "run.mjs").write_text(RUN % NPM)
    paths = []
    for index, one in enumerate(inputs):
        paths.append(str(tmp_path / f"{index}.bin"))
        one.numpy().tofile(paths[-1])
    command = [NODE, tmp_path / "run.mjs", tmp_path / "net.sgi", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def results_by_node(tmp_path, image, *inputs):
    answer = by_node(tmp_path, image, *inputs)
    hint = "if the kernels in C have changed, `make wasm` builds sparsegate.wasm anew"
    assert "error" not in answer, f"{answer['error']}; {hint}"
    return answer


def outputs_of(model, example):
    with torch.no_grad():
        found = model(example)
    return found if isinstance(found, tuple) else (found,)


@every_case
def test_an_image_computes_what_torch_does(made, example):
    model = pruned(made())
    image = Image(image_of_model(model, example))
    for found, expected in zip(
        image.run([example.numpy()]), outputs_of(model, example), strict=True
    ):
        assert np.allclose(found, expected.numpy(), atol=1e-5)


@needs_node
@pytest.mark.parametrize("case", ["pictures", "tokens"])
def test_javascript_computes_what_torch_does(case, tmp_path):
    made, example = CASES[case]
    model = pruned(made())
    image = image_of_model(model, example, instruction_set="wasm-simd")
    if case == "tokens":  # numbers of 64 bits are not JSON
        model = nn.Sequential(model.table, model.layer)
        image = image_of_model(model, example, instruction_set="wasm-simd")
    answer = results_by_node(tmp_path, image, example)
    assert answer["inputs"][0]["shape"] == list(example.shape)
    for found, expected in zip(answer["found"], outputs_of(model, example), strict=True):
        assert found["shape"] == list(expected.shape)
        assert np.allclose(found["data"], expected.numpy().reshape(-1), atol=1e-5)


@needs_node
def test_javascript_runs_recurrent_layers(tmp_path):
    made, example = CASES["sequences"]
    model = pruned(made())
    [found] = results_by_node(tmp_path, image_of_model(model, example), example)["found"]
    [expected] = outputs_of(model, example)
    assert np.allclose(found["data"], expected.numpy().reshape(-1), atol=1e-5)


@needs_node
def test_javascript_has_words_for_what_is_wrong(tmp_path):
    image = image_of_model(pruned(Residual()), CASES["pictures"][1])
    damaged = image[:500] + bytes([image[500] ^ 1]) + image[501:]
    assert "checksum" in by_node(tmp_path, damaged)["error"]
    assert "no program image" in by_node(tmp_path, b"something else, of a hundred bytes")["error"]
    answer = by_node(tmp_path, image, torch.zeros(5))
    assert answer["error"].startswith(
        "input0 is a Float32Array of 1200 elements, shape [1,3,20,20]"
    )
    tokens = image_of_model(nn.Embedding(30, 16), torch.zeros(1, 2, dtype=torch.int64))
    answer = by_node(tmp_path, tokens, torch.tensor([[3, 30]]))
    assert "outside of its table" in answer["error"]


def test_wasmtime_runs_it_without_javascript():
    wasmtime = pytest.importorskip("wasmtime", reason="wasmtime is not installed")
    store = wasmtime.Store()
    module = wasmtime.Module(store.engine, NPM.joinpath("sparsegate.wasm").read_bytes())
    assert [one.name for one in module.imports] == []
    made = wasmtime.Instance(store, module, []).exports(store)
    example = CASES["pictures"][1]
    model = pruned(Residual())
    image = image_of_model(model, example, instruction_set="wasm-simd")
    memory, at = made["memory"], -(-made["__heap_base"].value(store) // 64) * 64
    memory.grow(store, 40)
    memory.write(store, image, at)
    room = at + -(-len(image) // 64) * 64
    size = made["sg_image_room"](store, at, len(image))
    assert made["sg_image_load"](store, at, len(image), room, size) == 0
    work = room + -(-size // 64) * 64
    given = work + -(-made["sg_image_memory"](store, room, 1) // 64) * 64
    out = given + example.nbytes
    pointers = out + 64
    memory.write(store, example.numpy().tobytes(), given)
    memory.write(store, np.array([given, out], np.uint32).tobytes(), pointers)
    assert made["sg_image_run"](store, room, work, 1, pointers, pointers + 4) == 0
    found = np.frombuffer(memory.read(store, out, out + 40), np.float32)
    assert np.allclose(found, outputs_of(model, example)[0].numpy().reshape(-1), atol=1e-5)


def test_the_engine_is_small():
    assert len(gzip.compress(NPM.joinpath("sparsegate.wasm").read_bytes())) < 150_000


def test_the_npm_package_has_its_files():
    package = json.loads(NPM.joinpath("package.json").read_text())
    assert all(NPM.joinpath(name).is_file() for name in package["files"])
    from sparsegate import __version__

    assert __version__.startswith(package["version"]) or package["version"] in __version__


def test_a_model_that_the_engine_lacks_operations_for_is_refused_by_name():
    class Sorted(nn.Module):
        def forward(self, x):
            return x.sort(-1).values

    with pytest.raises(UnplannedError, match="sort"):
        image_of_model(Sorted(), torch.zeros(1, 4))
    with pytest.raises(ValueError, match="instruction_set must be one of plain, avx2"):
        image_of_model(nn.Linear(4, 2), torch.zeros(1, 4), instruction_set="sse")


def test_an_image_is_saved(tmp_path):
    save_image(nn.Linear(4, 2), tmp_path / "net.sgi", torch.zeros(1, 4))
    assert Image((tmp_path / "net.sgi").read_bytes()).outputs[0].shape == (1, 2)


def described(path):
    text = path.read_text()
    begin = text.index('id="data-engine">') + len('id="data-engine">')
    return json.loads(text[begin : text.index("</script>", begin)])


def test_a_page_says_what_it_takes_and_shows(tmp_path):
    path = tmp_path / "net.html"
    example = torch.randn(4, 3, 20, 20)
    written = to_web_page(
        pruned(Residual()), path, example=example, normalise=Normalise((1.0, 2.0, 3.0), 5.0)
    )
    about = described(path)
    assert written.num_bytes == path.stat().st_size
    assert (about["picture"], about["show"]) == ([3, 20, 20], "classes")
    assert (about["mean"], about["spread"]) == ([1, 2, 3], [5])
    assert "wasm-unsafe-eval" in path.read_text()
    to_web_page(pruned(Sequences()), path, example=CASES["sequences"][1])
    assert (described(path)["picture"], described(path)["show"]) == (None, "numbers")
    with pytest.raises(ValueError, match=r"ends in \.html"):
        to_web_page(pruned(Residual()), tmp_path / "net.htm", example=example)


def test_the_command_writes_a_page_of_any_model(tmp_path, capsys, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import torch\ndef small(): return torch.nn.Linear(4, 2), torch.zeros(1, 4)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["export", "mine.py:small", "net.html", "--to", "web"]) == 0
    assert described(tmp_path / "net.html")["show"] == "numbers"
    assert "net.html: " in capsys.readouterr().out
