"""ClusterQueues, LocalQueues and Cohorts: what their status shows (``status``)."""
