"""The `main` of an exported network: images from stdin, labels to stdout."""

MAIN = ""
