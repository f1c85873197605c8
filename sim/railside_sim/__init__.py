"""Machines and a kubelet to run against without hardware or cluster.

The product is judged by it, so it must know nothing of the product but its contracts.
"""
