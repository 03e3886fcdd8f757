"""Makes a page that runs a program image on pictures, on the camera, or on numbers."""

from __future__ import annotations

import base64
import gzip
from dataclasses import dataclass
from typing import Any, Literal

from .document import data_block, document, of_package
from .element import Html, element, section

Show = Literal["numbers", "classes", "faces"]
SCRIPTS = ("bytes", "faces", "picture", "engine_page")
DROP = "Drop a picture here, or choose one. It stays on this computer."


@dataclass(frozen=True)
class EngineNetwork:
    """A program image, and how a page feeds it and shows what it computes."""

    image: bytes
    """The program image."""
    picture: tuple[int, int, int] | None
    """Channels, height and width of the picture that it takes; None for other inputs."""
    mean: tuple[float, ...]
    """What is subtracted from the bytes of each channel."""
    spread: tuple[float, ...]
    """What the difference is divided by."""
    show: Show
    """Whether the outputs are classes, faces, or just numbers."""
    class_names: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values; the image and the engine are compressed."""
        return {
            "image": _packed(self.image),
            "engine": _packed(of_package("sparsegate.wasm")),
            "picture": self.picture,
            "mean": self.mean,
            "spread": self.spread,
            "show": self.show,
            "names": self.class_names,
        }


def engine_document(network: EngineNetwork, title: str, facts: str) -> str:
    """The page.

    Args:
        network: the network, and how its inputs and outputs are shown.
        title: the name of the page.
        facts: a sentence about the network, below the title.

    """
    heading = element(
        "header", element("h1", title), element("p", facts, class_="lead"), class_="top"
    )
    given = _picture() if network.picture else _numbers()
    body = section("engine", "Try it", given, _answer(), data_block("engine", network.to_json()))
    return document(title, heading, element("main", body), scripts=SCRIPTS, code=_engine_code())


def _engine_code() -> str:
    """The npm package's code as a part of a script that is no module."""
    code = of_package("index.js").decode()
    return code.replace("export class", "class").replace("import.meta.url", "location.href")


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


def _picture() -> Html:
    canvas = element(
        "canvas",
        id="shown",
        width=480,
        height=360,
        role="img",
        aria_label="The picture, and what the network found in it",
    )
    choose = element("input", type="file", id="file", accept="image/*", aria_label="A picture")
    camera = element("button", "Use the camera", type="button", id="camera", hidden=True)
    return element(
        "div",
        element("p", DROP, id="drop-how"),
        element("div", choose, camera, class_="row"),
        element("div", canvas, id="drop", class_="drop"),
    )


def _numbers() -> Html:
    run = element("button", "Run it on random numbers", type="button", id="run")
    return element("div", element("p", run))


def _answer() -> Html:
    return element(
        "div",
        element("p", "Loading the network ...", id="says", role="status", aria_live="polite"),
        element("ol", id="found", aria_label="What the network computes"),
    )
