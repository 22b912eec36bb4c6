"""What a run was like: measured, compared, told.

- ``measures``, ``usage``, ``sharing``: exact figures; ``comparison``: two runs side by side
- ``report``, ``story``, ``words``: as data and as text
- ``page``, ``page_style``, ``charts``: as a page
"""
