"""Admission checks: the second phase of admission (``admission_checks``)."""
