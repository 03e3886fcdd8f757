"""The version of the three packages."""

VERSION = "0.2.0"
