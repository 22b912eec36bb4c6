"""Who may do what (``tokens``), and how server and clients prove their identity (``certificates``)."""
