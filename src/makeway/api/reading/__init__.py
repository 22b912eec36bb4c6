"""Text to objects, with the line of every problem.

- ``documents``: YAML and JSON to trees; ``yaml_scalars``, ``json_lines``, ``long_lists`` are parts of it
- ``structure``: a tree against a shape; ``spellings``: what to write instead of an older name
- ``manifests``: the documents of a file, each judged; ``together``: problems between them
"""
