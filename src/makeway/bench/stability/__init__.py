"""Does preemption come to rest? Random states, played until they do, and which workloads were entitled meanwhile."""
