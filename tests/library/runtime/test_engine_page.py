"""Pages of the engine in a real browser: a picture, the camera, and numbers give what torch gives."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from sparsegate.export import Normalise
from sparsegate.runtime import to_web_page

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; apt-get install chromium"),
]
CAMERA = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
RUN = """async (numbers) => {
  const { network } = await window.sparsegate.ready;
  return [...Object.values(network.run([Float32Array.from(numbers)]))[0].data];
}"""
FACES = """([boxes, scores]) => window.sparsegate.faces(Float32Array.from(boxes), scores, 96)"""


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as engine:
        launched = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *CAMERA])
        yield launched
        launched.close()


@pytest.fixture
def opened(browser):
    """Opens a page; whatever it complains of fails the test."""
    pages, complaints = [], []

    def open_page(path):
        page = browser.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda one: complaints.append(one.text) if one.type == "error" else None)
        page.goto(path.as_uri())
        page.evaluate("() => window.sparsegate.ready.then(() => true)")
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


class Detector(nn.Module):
    """A detector whose score is the brightness of a cell of eight pixels."""

    def __init__(self):
        super().__init__()
        self.boxes = nn.Conv2d(3, 16, 8, stride=8)
        self.scores = nn.AvgPool2d(8)
        nn.init.zeros_(self.boxes.weight)
        nn.init.zeros_(self.boxes.bias)
        self.boxes.bias.data[2:4] = 16

    def forward(self, x):
        boxes = self.boxes(x).flatten(2).transpose(1, 2)
        return boxes, 20 * self.scores(x).mean(1).reshape(1, -1, 1) - 10


def classifier():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10)).eval()


def test_the_network_computes_what_torch_does(opened, tmp_path):
    model, image = classifier(), torch.randn(1, 3, 8, 8)
    to_web_page(model, tmp_path / "net.html", example=image)
    found = opened(tmp_path / "net.html").evaluate(RUN, image.reshape(-1).tolist())
    assert np.allclose(found, model(image).detach().numpy()[0], atol=1e-5)


def test_a_picture_of_one_bright_cell_is_one_face_where_it_is(opened, tmp_path):
    to_web_page(
        Detector(),
        tmp_path / "faces.html",
        example=torch.zeros(1, 3, 96, 96),
        normalise=Normalise(127.5, 127.5),
        show="faces",
    )
    pixels = np.zeros((96, 96, 3), np.uint8)
    pixels[40:48, 16:24] = 255
    Image.fromarray(pixels).save(tmp_path / "one.png")
    page = opened(tmp_path / "faces.html")
    page.set_input_files("#file", tmp_path / "one.png")
    page.locator("#says", has_text="found").wait_for()
    assert page.inner_text("#says").startswith("One face found in ")
    scores = torch.full((144,), -9.0)
    scores[5 * 12 + 2] = 9
    boxes = Detector()(torch.zeros(1, 3, 96, 96))[0].flatten().tolist()
    [face] = page.evaluate(FACES, [boxes, scores.tolist()])
    assert (face["left"], face["top"]) == (pytest.approx(1.5 / 12), pytest.approx(4.5 / 12))


def test_the_camera_is_looked_at(opened, tmp_path):
    to_web_page(classifier(), tmp_path / "net.html", example=torch.zeros(1, 3, 8, 8))
    page = opened(tmp_path / "net.html")
    page.click("#camera")
    page.locator("#says", has_text="Computed").wait_for()
    assert page.locator("#found li").count() == 5


def test_something_that_is_no_picture_is_refused_in_words(opened, tmp_path):
    to_web_page(classifier(), tmp_path / "net.html", example=torch.zeros(1, 3, 8, 8))
    page = opened(tmp_path / "net.html")
    (tmp_path / "notes.png").write_text("no picture")
    page.set_input_files("#file", tmp_path / "notes.png")
    page.locator("#says", has_text="notes.png").wait_for()


def test_other_models_run_on_numbers(opened, tmp_path):
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 2))
    to_web_page(model, tmp_path / "net.html", example=torch.zeros(1, 4, dtype=torch.int64))
    page = opened(tmp_path / "net.html")
    page.click("#run")
    page.locator("#says", has_text="Computed").wait_for()
    assert page.inner_text("#found").startswith("output0 [1, 4, 2]: ")
