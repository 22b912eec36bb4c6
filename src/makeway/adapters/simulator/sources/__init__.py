"""Where simulated work comes from: manifests (``arrivals``), recipes (``generator``), traces (``swf``, ``traces``)."""
