"""The entropy-coded container, *.sg."""
