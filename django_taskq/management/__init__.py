"""Commands, and what the processes behind them share."""
