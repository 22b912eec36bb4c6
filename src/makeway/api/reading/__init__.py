"""Text to objects, with the line of every problem.

- ``documents``: YAML and JSON to trees; ``yaml_scalars``, ``json_lines``, ``long_lists`` are parts of it
- ``structure``: checks a tree against a shape; ``spellings``: what to write instead of an older name
- ``manifests``: reads and checks the documents of a file; ``together``: problems between them
"""
