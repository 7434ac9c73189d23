package fakedisk

import (
	"testing"

	"millrace/actors/port"
	"millrace/test/porttest/disktest"
)

func TestContract(t *testing.T) {
	disktest.Run(t, func(*testing.T) port.Disk { return New() })
}
