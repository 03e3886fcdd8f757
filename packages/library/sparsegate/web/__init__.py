"""Self-contained HTML: elements, documents, and a network that answers in the browser."""

from .browser_network import BrowserNetwork
from .document import data_block, document
from .element import Html, element, join, section
from .engine_page import EngineNetwork, Show, engine_document
from .try_it import try_it, try_it_document

__all__ = [
    "BrowserNetwork",
    "EngineNetwork",
    "Html",
    "Show",
    "data_block",
    "document",
    "element",
    "engine_document",
    "join",
    "section",
    "try_it",
    "try_it_document",
]
