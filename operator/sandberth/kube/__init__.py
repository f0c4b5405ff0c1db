"""The Kubernetes API: names, slim models, client, informer and the making of Pods."""
