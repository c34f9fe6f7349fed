"""Ports and channels: messages beside the results of calls, and answers that come later or from elsewhere."""
