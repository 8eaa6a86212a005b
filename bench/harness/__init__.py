"""What every bench shares: starting the two brokers, running clients, measuring processes and printing tables."""
