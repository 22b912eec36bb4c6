"""Does preemption settle? Random states are played until they do; entitled workloads that wait are checked."""
