"""The root of every error that Sandberth raises.

SandberthError
├── LedgerError        a broken invariant of the accounting (core/ledger.py)
├── QuantityError      a size that is no Kubernetes quantity (core/quantity.py)
├── ApiError           the API server answered with an error (kube/errors.py)
├── Unreachable        the API server did not answer (kube/errors.py)
├── KubeletError       the kubelet gave no answer to report from (reporter/kubelet.py)
└── NotYetError        there is no NodeCapacity to report to (reporter/kubelet_source.py)
"""


class SandberthError(Exception):
    """Anything that Sandberth itself can say went wrong."""


class LedgerError(SandberthError):
    """The accounting contradicts itself: a fault of ours, never of the input."""
