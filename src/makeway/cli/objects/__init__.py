"""Commands about objects of a server: apply, get, describe, delete, events."""
