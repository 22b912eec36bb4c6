"""Sources of simulated work: manifests (``arrivals``), recipes (``generator``), traces (``swf``, ``traces``)."""
