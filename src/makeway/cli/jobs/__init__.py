"""Commands about jobs and queues: submit, logs, cancel, wait, queues."""
