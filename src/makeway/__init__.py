"""Decides which workloads run now, which wait, and which must make way."""

__version__ = "0.1.0"
