"""A network in chromium: our engine in WebAssembly against onnxruntime-web's, interleaved, one thread each.

    npm pack onnxruntime-web && tar xzf onnxruntime-web-*.tgz
    python -m benchmarks.browser_race networks.py:detector --ort package/dist --out results/browser.json

Both run in one page on the same numbers. A round times each of them once; the ratio is the median
of the rounds' ratios, so that other programs on the machine disturb both alike. Results must agree.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import shutil
import statistics
import tempfile
import threading
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sparsegate as sg
from sparsegate.bench import machine, versions
from sparsegate.cli.python_model import open_python
from sparsegate.runtime import save_image

ROUNDS = 60
PAGE = """<!doctype html><script type="module">
import { Network } from "./npm/index.js";
import * as ort from "./ort/ort.wasm.min.mjs";
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = new URL("./ort/", location.href).href;
const bytes = async (name) => (await fetch(name)).arrayBuffer();
window.race = async (rounds) => {
  const network = await Network.load(await bytes("net.sgi"));
  const session = await ort.InferenceSession.create("net.onnx", { executionProviders: ["wasm"] });
  const x = new Float32Array(await bytes("x.bin"));
  const tensor = new ort.Tensor("float32", x, network.inputs[0].shape);
  const ways = {
    ours: async () => Object.values(network.run([x])).map((one) => one.data),
    ort: async () => Object.values(await session.run({ [session.inputNames[0]]: tensor })).map((one) => one.data),
  };
  const times = { ours: [], ort: [] }, found = {};
  for (let round = -5; round < rounds; round++)
    for (const name of round % 2 ? ["ours", "ort"] : ["ort", "ours"]) {
      const began = performance.now();
      found[name] = await ways[name]();
      if (round >= 0) times[name].push(performance.now() - began);
    }
  const apart = Math.max(...found.ours.map((one, index) =>
    one.reduce((most, value, at) => Math.max(most, Math.abs(value - found.ort[index][at])), 0)));
  return { times, apart };
};
window.ready = true;
</script>"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder without a word; its pages may measure time finely."""

    extensions_map = {  # noqa: RUF012
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def end_headers(self) -> None:
        """Isolates the page from others, which makes the browser's clock finer."""
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()


def prepare(folder: Path, model: torch.nn.Module, example: torch.Tensor, ort: Path) -> None:
    """Writes everything that the page loads."""
    save_image(model, folder / "net.sgi", example, instruction_set="wasm-simd")
    sg.to_onnx(model, folder / "net.onnx", example)
    example.numpy().astype(np.float32).tofile(folder / "x.bin")
    (folder / "index.html").write_text(PAGE)
    (folder / "npm").symlink_to(Path(str(resources.files("sparsegate.web"))) / "npm")
    (folder / "ort").symlink_to(ort.resolve())


def race(folder: Path, chromium: str) -> tuple[dict[str, Any], str]:
    """What the page measured, and the browser's version."""
    from playwright.sync_api import sync_playwright

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with sync_playwright() as engine:
            browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{server.server_address[1]}/index.html")
            page.wait_for_function("window.ready")
            found = page.evaluate(f"() => window.race({ROUNDS})")
            version = browser.version
            browser.close()
        server.shutdown()
    return found, version


def main() -> None:
    """Races, prints and writes the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="module:function that gives a model and its input")
    parser.add_argument(
        "--ort", type=Path, required=True, help="the folder dist of onnxruntime-web"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        parser.error("there is no chromium; apt-get install chromium")
    torch.manual_seed(0)
    opened = open_python(options.model)
    example = torch.rand_like(opened.given.tensors[0]) * 2 - 1
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), opened.model, example, options.ort)
        found, version = race(Path(folder), chromium)
    times = found["times"]
    ratios = [theirs / ours for ours, theirs in zip(times["ours"], times["ort"], strict=True)]
    package = json.loads((options.ort.parent / "package.json").read_text())["version"]
    weights = sum(one.numel() for one in opened.model.state_dict().values())
    kept = sum(int(torch.count_nonzero(one)) for one in opened.model.state_dict().values())
    record = {
        "title": "A network in chromium: WebAssembly engines on one thread",
        "command": f"python -m benchmarks.browser_race {options.model} --ort package/dist --out results/browser.json",
        "seed": 0,
        "machine": machine(),
        "versions": {**versions("torch", "numpy"), "chromium": version, "onnxruntime-web": package},
        "network": opened.name,
        "weights": weights,
        "kept": kept,
        "rounds": ROUNDS,
        "largest difference": found["apart"],
        "milliseconds": {
            name: {"median": round(statistics.median(one), 2), "least": round(min(one), 2)}
            for name, one in times.items()
        },
        "onnxruntime-web / ours": round(statistics.median(ratios), 2),
    }
    print(json.dumps(record, indent=1))
    if options.out:
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
