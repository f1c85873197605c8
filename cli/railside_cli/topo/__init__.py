"""``railside topo``: a machine in one line, as a tree and as a matrix, with the reasons of what is wrong.

It must not read the machine, and must not print.
"""
