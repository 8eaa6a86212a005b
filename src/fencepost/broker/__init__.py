"""The server: sockets in, handlers in the middle, logs and coordinators behind them."""
