"""Pages in a real browser: nothing fails, the slider moves, a drawn digit is answered as PyTorch answers."""

import base64
import json
import shutil
from itertools import pairwise

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from sparsegate.export import for_browser, to_web
from sparsegate.web import try_it_document
from sparsegate_lab.data import mnist
from sparsegate_lab.models import LeNet5
from sparsegate_lab.report import make_comparison, make_page

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; apt-get install chromium"),
]
NUM_IMAGES = 1000
SEVEN = [(70, 70), (200, 70), (180, 110), (150, 160), (130, 220)]
RUN_ALL = """([images, count]) => {
  const { network } = window.sparsegate;
  const bytes = Uint8Array.from(atob(images), (letter) => letter.charCodeAt(0));
  const size = bytes.length / count;
  return Array.from({ length: count }, (_, place) => {
    const seen = network.run(network.normalise(bytes.subarray(place * size, (place + 1) * size)));
    return [...seen[seen.length - 1].data];
  });
}"""
NAMELESS = """() => [...document.querySelectorAll("canvas, svg, button, input, section, table")].filter((each) =>
  !each.closest("[aria-hidden=true]") && !each.getAttribute("aria-label") && !each.getAttribute("aria-labelledby") &&
  !(each.tagName === "BUTTON" && each.textContent) && !each.querySelector("caption")).map((each) => each.outerHTML)"""

REACHABLE = """() => [...document.querySelectorAll("a[href], button, input, summary, [tabindex='0']")]
  .filter((each) => each.checkVisibility()).length"""
FOCUSED = """() => [[...document.querySelectorAll("*")].indexOf(document.activeElement),
  getComputedStyle(document.activeElement).outlineStyle]"""


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as engine:
        launched = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def opened(browser):
    """Opens a page, phone-sized or not; whatever it complains of fails the test."""
    pages, complaints = [], []

    def open_page(path, *, width=1180, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                request.url.startswith(("file:", "data:")) or complaints.append(request.url)
            ),
        )
        page.goto(path.absolute().as_uri())
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


@pytest.fixture(scope="module")
def report(sparse_run):
    return make_page(sparse_run)


def draw(page, points):
    page.locator("#pad").scroll_into_view_if_needed()
    box = page.locator("#pad").bounding_box()
    at = [
        (box["x"] + x * box["width"] / 280, box["y"] + y * box["height"] / 280) for x, y in points
    ]
    page.mouse.move(*at[0])
    page.mouse.down()
    for point in at[1:]:
        page.mouse.move(*point, steps=5)
    page.mouse.up()
    page.locator("#says", has_text="%").wait_for()


def answers(page, images):
    """What the page's network makes of images in bytes."""
    sent = base64.b64encode(images.numpy().tobytes()).decode()
    return torch.tensor(page.evaluate(RUN_ALL, [sent, len(images)]), dtype=torch.float64)


def test_the_answers_are_pytorchs_on_a_thousand_test_images(opened, report, sparse_run):
    images, labels = mnist().test.images[:NUM_IMAGES], mnist().test.labels[:NUM_IMAGES]
    page = opened(report)
    about = json.loads(page.locator("#data-network").text_content())
    model = LeNet5().eval()
    model.load_state_dict(load_file(sparse_run / "network.safetensors"))
    with torch.no_grad():
        wanted = model.double()((images.double() - about["mean"]) / about["spread"])
    got = answers(page, images)
    assert (
        got - wanted
    ).abs().max() < 1e-5  # what dead units add to biases is rounded to single precision
    assert torch.equal(
        got.argmax(1), model.float()((images.float() - about["mean"]) / about["spread"]).argmax(1)
    )
    assert (got.argmax(1) == labels).float().mean() > 0.6


def test_every_kind_of_layer_is_computed_as_pytorch_does(opened, tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, (1, 2), 1, groups=2),
        nn.MaxPool2d(3, 2, 1),
        nn.ReLU(),
        nn.AvgPool2d(2, 1, 1),
        nn.Conv2d(4, 3, (3, 2), 1, (2, 1), dilation=(2, 1)),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.LazyLinear(6),
        nn.ReLU(),
        nn.Linear(6, 5),
    )
    images = torch.randint(0, 256, (20, 1, 28, 20), dtype=torch.uint8)
    model(images / 255)
    for each in model.parameters():
        if each.ndim > 1:
            nn.init.kaiming_normal_(each)
            each.data *= 2 * (torch.rand_like(each) > 0.4)
    for _ in range(20):
        model(images / 255)
    model.eval()
    to_web(model, tmp_path / "odd.html", example=images / 255)
    with torch.no_grad():
        wanted = model(images / 255).double()
    assert wanted.std(0).max() > 0.05
    assert torch.allclose(
        answers(opened(tmp_path / "odd.html"), images), wanted, rtol=1e-4, atol=1e-5
    )


def test_a_drawing_is_answered_and_lights_up_and_clears(opened, report):
    page = opened(report)
    dark = page.evaluate("document.getElementById('wires').toDataURL()")
    assert page.inner_text("#says") == "Nothing drawn yet."
    draw(page, SEVEN)
    assert page.inner_text("#says").startswith("The network says ")
    assert page.locator("#chances .best").count() == 1
    assert page.evaluate("document.getElementById('wires').toDataURL()") != dark
    page.click("#pad-clear")
    page.locator("#says", has_text="Nothing drawn yet.").wait_for()
    page.locator("#samples button").first.focus()
    page.keyboard.press("Enter")
    page.locator("#says", has_text="%").wait_for()


def test_one_can_draw_with_the_keyboard_alone(opened, report):
    page = opened(report)
    page.focus("#pad")
    page.keyboard.press(" ")
    for _ in range(8):
        page.keyboard.press("ArrowDown")
    page.locator("#says", has_text="%").wait_for()
    page.keyboard.press("Delete")
    page.locator("#says", has_text="Nothing drawn yet.").wait_for()


def test_a_drawing_is_centred_by_mass_in_twenty_of_twentyeight_pixels(opened, report):
    page = opened(report)
    square = """() => {
      const ink = new Uint8Array(280 * 280);
      for (let y = 10; y < 60; y++) for (let x = 200; x < 225; x++) ink[y * 280 + x] = 255;
      return [...window.sparsegate.centred(ink, 280, [1, 28, 28])];
    }"""
    pixels = torch.tensor(page.evaluate(square)).reshape(28, 28)
    expected = torch.zeros(28, 28, dtype=torch.int64)
    expected[4:24, 9:19] = 255  # 50 x 25 becomes 20 x 10, in the middle
    assert torch.equal(pixels, expected)


def test_the_slider_moves_the_gates_and_the_cursors(opened, report):
    page = opened(report)
    heights = "[...document.querySelectorAll('#chart-gates rect')].map((each) => Number(each.getAttribute('height')))"
    end, says = page.evaluate(heights), page.inner_text("#moment-says")
    assert says.startswith("epoch 4: ")
    page.focus("#moment")
    page.keyboard.press("Home")
    start = page.evaluate(heights)
    assert page.inner_text("#moment-says").startswith("start: ")
    assert [place for place, height in enumerate(start) if height] == [19]  # all gates begin at 0.6
    assert sum(height > 0 for height in end) > 2
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#moment-says").startswith("epoch 1: ")
    x = page.get_attribute("#chart-kept .cursor", "x1")
    page.keyboard.press("End")
    assert float(page.get_attribute("#chart-kept .cursor", "x1")) > float(x)
    assert page.evaluate(heights) == end


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_without_scrolling_sideways_and_the_button_changes_colours(
    opened, report, scheme
):
    page = opened(report, width=360, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    ground = "getComputedStyle(document.body).backgroundColor"
    before, masks = page.evaluate(ground), "document.querySelector('[data-mask]').toDataURL()"
    painted = page.evaluate(masks)
    page.click("#theme")
    assert page.evaluate(ground) != before
    assert page.evaluate(masks) != painted


def test_everything_that_is_seen_has_a_name_for_those_who_do_not_see(opened, report):
    page = opened(report)
    assert page.evaluate(NAMELESS) == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))
    levels = page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3')].map((each) => Number(each.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_tabulator_reaches_all_that_can_be_used_in_order_and_shows_where_it_is(opened, report):
    page = opened(report)
    places = []
    for _ in range(page.evaluate(REACHABLE)):
        page.keyboard.press("Tab")
        place, outline = page.evaluate(FOCUSED)
        places.append(place)
        assert outline != "none"
    assert places == sorted(set(places))
    page.keyboard.press("Tab")
    assert page.evaluate(
        "document.activeElement === document.body || document.activeElement.className === 'skip'"
    )


def test_runs_side_by_side_open_on_a_phone(opened, sparse_run, tmp_path):
    page = opened(
        make_comparison([sparse_run, sparse_run, sparse_run], tmp_path / "runs.html"), width=360
    )
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.locator("#chart-frontier circle").count() == 3


def test_the_bars_are_empty_until_something_is_drawn(opened, report):
    page = opened(report)
    widths = "rows => rows.map(row => row.getBoundingClientRect().width)"
    assert page.eval_on_selector_all("#chances .fill", widths) == [0] * 10
    draw(page, [(100, 60), (140, 60), (140, 220)])
    assert max(page.eval_on_selector_all("#chances .fill", widths)) > 10


def test_the_answer_has_the_name_of_its_class(opened, tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 2))
    network = for_browser(model, example=torch.rand(4, 1, 28, 28), class_names=("Bag", "Coat"))
    (tmp_path / "names.html").write_text(try_it_document(network, "names"))
    page = opened(tmp_path / "names.html")
    draw(page, [(100, 60), (140, 60), (140, 220)])
    assert page.inner_text("#says").split(":")[0] in (
        "The network says Bag",
        "The network says Coat",
    )
