"""Mutants of the core: small wrong changes that the tests must notice."""
