"""Reads and writes *.sg files, whose content is entropy-coded."""
