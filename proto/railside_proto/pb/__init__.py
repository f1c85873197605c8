"""Generated messages and stubs of the kubelet's APIs (``make proto``).

It must hold nothing written by hand but the ``.proto`` sources beside this file.
"""
