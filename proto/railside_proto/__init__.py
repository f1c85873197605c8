"""What both sides of Railside agree on: names, the machine, pools and seats, reasons, the kubelet's stubs.

Everything here is pure: no clock, no files, no sockets. It must import neither the agent nor the extender.
"""
