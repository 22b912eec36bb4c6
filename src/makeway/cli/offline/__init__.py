"""Commands that need no server: validate, crds, plan, place, simulate."""
