"""``railside why``: why a pod is where it is, or nowhere. It must not decide: the extender's own rules answer."""
