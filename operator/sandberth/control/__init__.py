"""The operator: kopf handlers, work queue and reconcilers."""
