// Package s3store is an object store in a bucket of S3, or of any server that speaks its
// protocol: port.ObjectStore, port.Pool and port.Keyring over aws-sdk-go-v2.
//
//	Store
//	 ├── Uploads()  ── client ── upload pool  (20 connections)    whole fragments
//	 ├── General()  ── client ── general pool (200 connections)   everything else
//	 └── Keyring()  credentials both sign with; fetched by who schedules it, used from memory
//
// The two clients share no connection, so that uploads which hang take none from reads; what else
// writes, manifests and deletions, takes half of the general pool at most. Beside the keyring they
// share what is learned of the store: how long its answers take, in which forms it takes puts, and
// whether a probe's object is left in it. The SDK's retries are off, because core/upload and the
// readers decide what is asked again and when. Two repetitions are left, of what met an idle
// connection that turned out to be closed: a read is sent once more, and net/http sends a put of no
// bytes again of which nothing went out. What a deadline ended is never repeated.
//
// A Put is one request. Its body goes from the port.Body to the socket and is read once: a
// fragment's is held to what was committed and summed on the way, and the CRC-32C travels
// behind it, as a trailer. The payload is not signed (a signature needs a reading of its own;
// TLS and the checksum protect the bytes). The last block goes out only when the body ends
// there, so damage on this side never becomes an object, and damage behind it is the store's
// to refuse. Small objects know their checksum before; it travels in a header.
//
// An answer that says "stored" may be a gateway's whose store got nothing. S3 gives the checksum
// of a put back in its answer. That it must can't be taken for granted: SeaweedFS before
// April 2026 (its pull request 8914) refuses a wrong checksum and gives none back, older MinIO
// gives back that of a header and not that of a trailer. A put whose answer has none is followed
// by a question for the object's size (put.go). What remains is a store that gives none back and
// stores other bytes of the same number: readers find that by the checksums of what they read.
//
// Not every store takes trailers, and a bucket's policy may want payloads signed. Probe finds
// out. It asks for the bucket and then puts one byte with a checksum that is wrong, in one
// form after the other (form.go). A store that would refuse a write (permissions, another
// owner, no room, read-only) refuses this one for that reason; one that would take it answers
// that the checksum is wrong, and nothing was stored: puts go in that form from then on, those
// of fragments with a trailer if that is taken, else after one reading more. There is no key
// that a listing hides, so an object that is put and deleted would be seen. A store that knows
// no checksums does store it; it is deleted then, or by a later probe: its name is the same for
// as long as the node runs, so that no more than one is left where deletions fail.
//
// HTTP/1.1 only. The proxies of the environment (HTTPS_PROXY) are not used: a node
// whose traffic should take another way gets it as its endpoint.
package s3store
