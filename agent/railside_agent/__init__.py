"""The agent of one node: from its sysfs tree to the kubelet.

It must not import the extender, and its core modules must not import its shell.
"""
