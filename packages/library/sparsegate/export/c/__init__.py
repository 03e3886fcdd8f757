"""C code for a small network: one file for each kind of step."""
