"""All figures that are kept up to date change by change, counted anew from the stored objects and compared.

- ``recount``: the comparison
- ``demand`` and ``shares``: what pending Workloads ask for, and shares, by arithmetic of their own
"""
