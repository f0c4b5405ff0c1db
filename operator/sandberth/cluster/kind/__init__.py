"""The kind bed: real kubelets in containers of this machine's Docker."""
