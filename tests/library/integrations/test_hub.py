"""Networks on the hub: a local folder, and a small server on this machine that speaks its API."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import onnxruntime
import pytest
import torch
from huggingface_hub import ModelCard
from torch import nn

import sparsegate as sg
from sparsegate.bench import Speed, Timing
from sparsegate.integrations.hub import save_for_hub
from sparsegate.integrations.hub_mixin import SparseHubMixin

RECORD = {
    "validation": 98.5,
    "test": 98.25,
    "run": {"data": "/home/me/mnist", "seed": 3},
    "command": "sparsegate train x --note '```'",
    "versions": {"torch": "2.13"},
    "notes": ["every gate of <b>fc1</b> has closed"],
}
COMMIT = "0123456789" * 4


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's API as uploads and downloads of small files need."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.tokens.add(self.headers.get("Authorization"))
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts == ["api", "repos", "create"]:
            wanted = json.loads(body)
            name = f"{wanted.get('organization') or 'me'}/{wanted['name']}"
            private = wanted.get("private") or wanted.get("visibility") == "private"
            self.server.repos.setdefault(name, {"private": private})
            self._json({"url": f"{self.server.address}/{name}"})
        elif parts == ["api", "validate-yaml"]:
            self.server.validated.append(json.loads(body)["content"])
            self._json({"errors": [], "warnings": []})
        elif parts[4] == "preupload":
            files = [file["path"] for file in json.loads(body)["files"]]
            modes = {"uploadMode": "regular", "shouldIgnore": False, "oid": None}
            self._json({"files": [{"path": path, **modes} for path in files]})
        elif parts[4] == "commit":
            self._commit("/".join(parts[2:4]), [json.loads(line) for line in body.splitlines()])
        else:
            self._missing("NotFound")

    def do_HEAD(self):
        self.do_GET(body=False)

    def do_GET(self, *, body=True):
        owner, name, _, _, *path = self.path.partition("?")[0].strip("/").split("/")
        files = self.server.repos.get(f"{owner}/{name}")
        if files is None:
            return self._missing("RepoNotFound")
        content = files.get("/".join(path))
        if content is None:
            return self._missing("EntryNotFound")
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)
        return None

    def log_message(self, *words):
        """Nothing."""

    def _commit(self, repo, lines):
        for line in lines:
            if line["key"] == "file":
                value = line["value"]
                self.server.repos[repo][value["path"]] = base64.b64decode(value["content"])
        self.server.messages.append(lines[0]["value"]["summary"])
        url = f"{self.server.address}/{repo}/commit/{COMMIT}"
        self._json({"commitUrl": url, "commitOid": COMMIT, "success": True})

    def _json(self, value):
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _missing(self, code):
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.address = f"http://127.0.0.1:{server.server_address[1]}"
    server.repos, server.validated, server.messages, server.tokens = {}, [], [], set()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def network():
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 4))


def pruned():
    model = network()
    model[0].weight.data *= torch.rand(30, 20) < 0.1
    return model.eval()


def test_a_network_goes_to_the_hub_and_comes_back(hub, tmp_path):
    model = pruned()
    address = {"endpoint": hub.address, "token": "hf_test"}
    url = sg.push_to_hub(model, "me/net", private=True, commit_message="My network", **address)
    assert url == f"{hub.address}/me/net/commit/{COMMIT}"
    assert hub.messages == ["My network"]
    assert hub.tokens == {"Bearer hf_test"}
    assert hub.repos["me/net"]["private"]
    assert set(hub.repos["me/net"]) == {"private", "model.sg", "config.json", "README.md"}
    assert hub.validated == [hub.repos["me/net"]["README.md"].decode()]
    again = sg.from_hub("me/net", cache_dir=tmp_path, **address).into(network())
    assert torch.equal(again[0].weight, model[0].weight)
    offline = sg.from_hub("me/net", cache_dir=tmp_path, local_files_only=True)
    assert torch.equal(offline.into(network())[2].bias, model[2].bias)


def test_a_repository_of_something_else_is_refused_in_words(hub, tmp_path):
    hub.repos["me/other"] = {"model.safetensors": b"x"}
    options = {"endpoint": hub.address, "token": False, "cache_dir": tmp_path}
    with pytest.raises(ValueError, match=r"me/other has no model.sg: sg.push_to_hub did not"):
        sg.from_hub("me/other", **options)
    hub.repos["me/damaged"] = {"model.sg": b"not a network"}
    with pytest.raises(ValueError, match=r"model\.sg|not an? |damaged"):
        sg.from_hub("me/damaged", **options)
    with pytest.raises(OSError, match="404"):
        sg.from_hub("me/nothing", **options)


def test_a_local_folder_takes_the_place_of_the_hub(tmp_path):
    model = pruned()
    save_for_hub(model, tmp_path / "net")
    assert torch.equal(sg.from_hub(tmp_path / "net").into(network())[0].weight, model[0].weight)
    with pytest.raises(ValueError, match=r"has no model.sg"):
        sg.from_hub(tmp_path)


def test_the_graph_goes_with_the_weights_if_an_example_is_given(tmp_path):
    model, inputs = pruned(), torch.randn(3, 20)
    save_for_hub(model, tmp_path, example=inputs)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    (output,) = session.run(None, {session.get_inputs()[0].name: inputs.numpy()})
    torch.testing.assert_close(torch.from_numpy(output), model(inputs).detach())


def test_the_card_says_what_was_measured(tmp_path):
    model = pruned()
    kept = int(torch.count_nonzero(model[0].weight)) + 120
    timing = Timing(1, 2, {"torch eager": 6.0, "sparsegate": 2.0})
    speed = Speed("net", "sparsegate bench x", {"cores": 2}, {}, (timing,))
    (tmp_path / "record.json").write_text(json.dumps(RECORD))
    save_for_hub(
        model, tmp_path, repo_id="me/net", record=tmp_path, speed=speed.to_json(), license="mit"
    )
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.library_name == "sparsegate"
    assert card.data.license == "mit"
    assert "sparse" in card.data.tags
    (result,) = card.data.eval_results
    assert (result.metric_value, result.dataset_name) == (98.25, "mnist")
    assert f"{kept:,} of 720 weights ({720 / kept:.1f} times fewer)" in card.text
    assert 'sg.from_hub("me/net").into(Network())' in card.text
    assert "| mnist | 98.25 % | 98.50 % |" in card.text
    assert "| 2.weight | 4x30 | 120 | 120 | 0.00 % |" in card.text
    size = (tmp_path / "model.sg").stat().st_size
    assert f"| `model.sg` | {size:,} | {(720 + 34) * 4 / size:.1f} |" in card.text
    assert "3.00x" in card.text
    assert "cores 2" in card.text
    assert "<b>" not in card.text
    assert "````sh\nsparsegate train x --note '```'\n````" in card.text
    assert json.loads((tmp_path / "record.json").read_text()) == RECORD


def test_a_card_without_records_claims_nothing(tmp_path):
    save_for_hub(pruned(), tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "Accuracy" not in text
    assert "Speed" not in text
    assert "model-index" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"record": {"test": 3}}, "the value is not the record of a run: it has no accuracies"),
        ({"speed": {"format": 9}}, "expected a speed record of format 1, got 9"),
        ({"speed": {"format": 1}}, "the value is not what sparsegate bench --out wrote"),
    ],
)
def test_records_of_something_else_are_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        save_for_hub(pruned(), tmp_path / "net", **options)
    assert not (tmp_path / "net").exists()


def test_a_record_that_is_no_json_is_refused(tmp_path):
    (tmp_path / "record.json").write_text("nothing")
    with pytest.raises(ValueError, match=r"record.json is not JSON"):
        save_for_hub(pruned(), tmp_path / "net", record=tmp_path / "record.json")


def test_gates_are_finished_first(tmp_path):
    with pytest.raises(ValueError, match="finish"):
        save_for_hub(sg.gate(network()), tmp_path)


class Net(nn.Module, SparseHubMixin):
    """A model with the mixin."""

    def __init__(self, width: int = 30) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(20, width), nn.Linear(width, 4)


def test_a_class_with_the_mixin_saves_and_loads_itself(hub, tmp_path):
    model = Net(width=12)
    model.first.weight.data *= torch.rand(12, 20) < 0.1
    model.save_pretrained(tmp_path / "net", model_card_kwargs={"record": RECORD})
    assert json.loads((tmp_path / "net" / "config.json").read_text()) == {"width": 12}
    again = Net.from_pretrained(tmp_path / "net")
    assert torch.equal(again.first.weight, model.first.weight)
    assert not again.training
    text = (tmp_path / "net" / "README.md").read_text()
    assert 'Net.from_pretrained("OWNER/NAME")' in text
    assert "98.25 %" in text


def test_a_class_with_the_mixin_pushes_itself(hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.address)
    monkeypatch.setattr("huggingface_hub.hf_api.ENDPOINT", hub.address, raising=False)
    Net(width=12).push_to_hub("me/mine", token="hf_test")
    assert set(hub.repos["me/mine"]) == {"private", "model.sg", "config.json", "README.md"}
    assert b'Net.from_pretrained("me/mine")' in hub.repos["me/mine"]["README.md"]
