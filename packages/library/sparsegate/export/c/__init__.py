"""Writes small networks as C code whose weights are literals."""
