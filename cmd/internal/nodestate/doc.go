// Package nodestate is the node's own durable memory: port.NodeState in one bbolt
// file, node.db, beside the stream folders and not in them.
//
//	bucket     key         value
//	about      kind        "node"
//	           format      "1"
//	           identity    {node, data, created} as JSON
//	replicas   stream id   port.Replica as JSON
//
// Every put is fsynced before it returns. A node.db that was made for a node of
// another name is refused: two nodes would make promises with one memory.
package nodestate
