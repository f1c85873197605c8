"""What a device plugin for HCAs must do so that the kubelet harms nobody, checked on any plugin's own program.

A plugin is a command that serves a kubelet's folder for a machine's tree. It must not know any plugin from inside.
"""
