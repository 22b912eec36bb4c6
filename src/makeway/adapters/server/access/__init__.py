"""Who may do what (``tokens``), and how each side knows the other (``certificates``)."""
