"""Commands about the server of this machine: up, down, status, demo, kubeconfig, token."""
