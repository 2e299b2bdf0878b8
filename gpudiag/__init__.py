"""Explains why GPU memory is still allocated after a failed clean-up, and which PIDs to kill."""

__version__ = "0.1.0"
