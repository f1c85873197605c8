"""The demo: the real agent beside an embedded kubelet, told as a story.

It must never be imported by what runs in a cluster.
"""
