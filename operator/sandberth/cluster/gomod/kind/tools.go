//go:build tools

// Package tools names kind, so that go.mod keeps what it needs.
package tools

import _ "sigs.k8s.io/kind/cmd/kind/app"
