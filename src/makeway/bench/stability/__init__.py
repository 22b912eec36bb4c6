"""Does preemption come to rest? Random states, played until they do, and who was entitled meanwhile."""
