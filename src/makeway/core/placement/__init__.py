"""Pods and gangs on nodes: where they go, and who makes way for them (S-15)."""
