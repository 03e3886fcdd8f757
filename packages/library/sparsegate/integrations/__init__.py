"""Brings gates into trainers that people use; each module needs the extra of its name."""
