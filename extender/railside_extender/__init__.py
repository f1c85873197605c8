"""Answers a kube-scheduler: which nodes fit, and how well. Not built yet; it must not import the agent."""
