//go:build tools

// Package tools names the programs of the local cluster, so that go.mod keeps what they need.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
