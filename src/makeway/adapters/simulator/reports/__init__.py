"""The report of a run.

- ``measures``, ``usage``, ``sharing``: exact figures; ``comparison``: two runs side by side
- ``report``, ``story``, ``words``: as data and as text
- ``page``, ``page_style``, ``charts``: as a page
"""
