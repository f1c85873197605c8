"""Shells that agent and extender share: logs, probes, values that others wait for.

It must hold no decision about devices or pods.
"""
