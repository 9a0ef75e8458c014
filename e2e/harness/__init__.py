"""What the end-to-end suites stand on: a server to start and kill, clients, and data made from a seed."""
