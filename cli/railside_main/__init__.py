"""Entry points of the programs that run in a cluster.

The only code that may know agent and extender together; it must hold no decision.
"""
