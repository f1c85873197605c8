"""Answers for a real Kubernetes cluster in namespaces of its own, for tests and for a person at a shell.

It must not import any of the product but ``railside_proto.names``: it judges the product from outside.
"""
