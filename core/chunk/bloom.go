package chunk

// bloom is a filter's bytes; see the package comment for its bits.
type bloom []byte

// add notes one entry's filter value; an empty value is an entry without one.
func (f bloom) add(value []byte) {
	if len(value) == 0 {
		f[0] |= 0x80
		return
	}
	a, b := f.bits(value)
	f[a/8] |= 0x80 >> (a % 8)
	f[b/8] |= 0x80 >> (b % 8)
}

func (f bloom) bits(value []byte) (a, b uint64) {
	a = finish(fnv1a(value))
	b = finish(a)
	n := uint64(len(f))*8 - 1
	return 1 + a%n, 1 + b%n
}

func (f bloom) has(bit uint64) bool { return f[bit/8]&(0x80>>(bit%8)) != 0 }

// MayMatch reports whether a chunk with the given Bloom bytes can hold an entry
// with one of the values, or, if unfiltered, one without a value. A chunk without
// Bloom bytes holds only entries without a value.
func MayMatch(filter []byte, values [][]byte, unfiltered bool) bool {
	if len(filter) == 0 {
		return unfiltered
	}
	f := bloom(filter)
	if unfiltered && f.has(0) {
		return true
	}
	for _, v := range values {
		if a, b := f.bits(v); f.has(a) && f.has(b) {
			return true
		}
	}
	return false
}

func fnv1a(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// finish is the output function of splitmix64: FNV-1a alone leaves the high bits
// of short values alike.
func finish(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
